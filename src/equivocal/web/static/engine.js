export function loadEngine() { return null; }
