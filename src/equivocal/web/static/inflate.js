// inflate.js: unpacks raw deflate data (RFC 1951), at once: the browser's own unpacker makes its callers
// wait, and an answer should not have to.

const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115,
  131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCES = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
  2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const LONGEST = 15; // bits of a code

// The `size` bytes that `packed` was made from.
export function inflate(packed, size) {
  const out = new Uint8Array(size);
  const input = { data: packed, at: 0, held: 0, count: 0 };
  let written = 0;
  let last = 0;
  while (!last) {
    last = bits(input, 1);
    const kind = bits(input, 2);
    if (kind === 0) written = copyStored(input, out, written);
    else written = unpackBlock(input, out, written, kind === 1 ? fixedCodes() : readCodes(input));
  }
  return out;
}

// The next `count` bits, the lowest first.
function bits(input, count) {
  while (input.count < count) {
    input.held |= input.data[input.at] << input.count;
    input.at += 1;
    input.count += 8;
  }
  const value = input.held & ((1 << count) - 1);
  input.held >>>= count;
  input.count -= count;
  return value;
}

function copyStored(input, out, written) {
  input.at -= input.count >> 3; // whole bytes that were read ahead
  input.held = 0;
  input.count = 0;
  const size = input.data[input.at] | (input.data[input.at + 1] << 8);
  out.set(input.data.subarray(input.at + 4, input.at + 4 + size), written);
  input.at += 4 + size;
  return written + size;
}

function unpackBlock(input, out, start, { literals, distances }) {
  let written = start;
  for (;;) {
    const symbol = read(input, literals);
    if (symbol === 256) return written;
    if (symbol < 256) {
      out[written] = symbol;
      written += 1;
    } else {
      const length = LENGTHS[symbol - 257] + bits(input, LENGTH_BITS[symbol - 257]);
      const far = read(input, distances);
      const distance = DISTANCES[far] + bits(input, far < 2 ? 0 : (far >> 1) - 1);
      for (let i = 0; i < length; i += 1) out[written + i] = out[written + i - distance];
      written += length;
    }
  }
}

// The next symbol of a table by `tabulate`.
function read(input, { table, longest }) {
  while (input.count < longest && input.at < input.data.length) {
    input.held |= input.data[input.at] << input.count;
    input.at += 1;
    input.count += 8;
  }
  const entry = table[input.held & ((1 << longest) - 1)];
  input.held >>>= entry & 15;
  input.count -= entry & 15;
  return entry >> 4;
}

// For every possible run of `longest` bits, the symbol that begins it (times 16) and its length.
function tabulate(lengths) {
  const longest = Math.max(...lengths, 1);
  const table = new Uint16Array(1 << longest);
  let code = 0;
  for (let length = 1; length <= LONGEST && length <= longest; length += 1) {
    lengths.forEach((own, symbol) => {
      if (own !== length) return;
      let reversed = 0; // codes are packed with their highest bit first
      for (let i = 0; i < length; i += 1) reversed |= ((code >> i) & 1) << (length - 1 - i);
      for (let i = reversed; i < table.length; i += 1 << length) table[i] = (symbol << 4) | length;
      code += 1;
    });
    code <<= 1;
  }
  return { table, longest };
}

function fixedCodes() {
  const lengths = Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8));
  return { literals: tabulate(lengths), distances: tabulate(new Array(30).fill(5)) };
}

function readCodes(input) {
  const [literals, distances, used] = [bits(input, 5) + 257, bits(input, 5) + 1, bits(input, 4) + 4];
  const own = new Array(19).fill(0);
  for (let i = 0; i < used; i += 1) own[ORDER[i]] = bits(input, 3);
  const table = tabulate(own);
  const lengths = [];
  while (lengths.length < literals + distances) {
    const symbol = read(input, table);
    if (symbol < 16) lengths.push(symbol);
    else if (symbol === 16) lengths.push(...new Array(3 + bits(input, 2)).fill(lengths.at(-1)));
    else lengths.push(...new Array(symbol === 17 ? 3 + bits(input, 3) : 11 + bits(input, 7)).fill(0));
  }
  return { literals: tabulate(lengths.slice(0, literals)), distances: tabulate(lengths.slice(literals)) };
}
