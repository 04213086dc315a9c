// theme.js: sets the theme chosen on an earlier visit on <html>; without one, the system's is used.
try {
  const kept = localStorage.getItem("equivocal-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch {
  // storage may be forbidden; the system's theme is used then
}
