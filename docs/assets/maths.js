// Formulas that arithmatex has marked as \(…\) or \[…\], set by KaTeX. Without JavaScript they stay TeX.
for (const node of document.querySelectorAll(".arithmatex")) {
  const tex = node.textContent.trim();
  katex.render(tex.slice(2, -2), node, { displayMode: tex.startsWith("\\["), throwOnError: false });
}
