// spelling.js: the known words nearest to one that is not known.

const CUTOFF = 0.6; // of likeness, as Python's difflib has it
const MOST_LETTERS = 200;

// The `most` words of `known` that are most alike, best first.
export function closest(word, known, most) {
  if (word.length > MOST_LETTERS) return [];
  return known.map((each) => [each, likeness(each.toLowerCase(), word)])
    .filter(([, like]) => like >= CUTOFF)
    .sort(([first, a], [second, b]) => b - a || (first < second ? 1 : -1))
    .slice(0, most).map(([each]) => each);
}

// Ratcliff and Obershelp: twice the letters in common blocks, over all letters.
const likeness = (a, b) => (2 * matching(a, b)) / (a.length + b.length);

function matching(a, b) {
  const [i, j, size] = longestBlock(a, b);
  if (size === 0) return 0;
  return size + matching(a.slice(0, i), b.slice(0, j)) + matching(a.slice(i + size), b.slice(j + size));
}

function longestBlock(a, b) {
  let best = [0, 0, 0];
  let before = new Array(b.length + 1).fill(0); // of blocks that end at a's last letter
  for (let i = 0; i < a.length; i += 1) {
    const here = new Array(b.length + 1).fill(0);
    for (let j = 0; j < b.length; j += 1) {
      if (a[i] !== b[j]) continue;
      here[j + 1] = before[j] + 1;
      if (here[j + 1] > best[2]) best = [i + 1 - here[j + 1], j + 1 - here[j + 1], here[j + 1]];
    }
    before = here;
  }
  return best;
}
