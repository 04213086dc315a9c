// events.js: the exact truth about the sentences of a world, and the roles that word order gives.
//
// `truth` is the tree of all beginnings: `next` maps "node word marker" to a node (-1 is silence), and
// `beliefs[node]` maps a role's number to [filler, probability, filler, probability, …].

// One entry per constituent: { role number: Map(filler number → probability) }, or null from where
// on the words are impossible. Undefined in a world that is too large to be enumerated.
export function findTruths(pairs, truth) {
  if (!truth) return undefined;
  let node = -1;
  return pairs.map(([word, marker]) => {
    if (node !== undefined) node = truth.next[`${node} ${word} ${marker}`];
    return node === undefined ? null : readBeliefs(truth.beliefs[node]);
  });
}

function readBeliefs(listed) {
  const roles = {};
  for (const [role, flat] of Object.entries(listed)) {
    roles[role] = new Map();
    for (let i = 0; i < flat.length; i += 2) roles[role].set(flat[i], flat[i + 1]);
  }
  return roles;
}

// { role: word } by word order and markers alone; plausibility does not count.
export function findIndicated(constituents, pairs, world) {
  for (const construction of world.grammar.constructions) {
    const places = placeRoles(construction, pairs, world.grammar.actions);
    if (places) {
      return Object.fromEntries(places.map((role, i) => [world.roles[role], constituents[i].word]));
    }
  }
  return {};
}

function placeRoles({ order, required, markers, action }, pairs, actions) {
  const fits = (role, [word, marker]) =>
    marker === markers[role][word] && actions.includes(word) === (role === action);

  function place(index, rest) {
    if (index === pairs.length) return [];
    for (let at = 0; at < rest.length; at += 1) {
      if (fits(rest[at], pairs[index])) {
        const after = place(index + 1, rest.slice(at + 1));
        if (after) return [rest[at], ...after];
      }
      if (required[rest[at]]) return null; // may not be left out
    }
    return null;
  }
  return place(0, order);
}
