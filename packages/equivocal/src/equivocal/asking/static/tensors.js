// tensors.js: unpacks what equivocal/web/page.py has put into the page: turns text into bytes, inflates
// them (RFC 1951), and reads the arrays of a safetensors file, 16-bit numbers included. The browser's own
// unpacker is asynchronous, and an answer should not have to wait.

const HEAD = 8; // bytes of the header's length

// { name: { shape, data } } of the bytes of a file; `data` is a typed array. `metadata` has its texts.
export function readTensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const size = Number(view.getBigUint64(0, true));
  const { __metadata__: metadata, ...header } = JSON.parse(
    new TextDecoder().decode(bytes.subarray(HEAD, HEAD + size)));
  const tensors = { metadata };
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(header)) {
    tensors[name] = { shape, data: readNumbers(dtype, bytes.slice(HEAD + size + from, HEAD + size + to)) };
  }
  return tensors;
}

const KINDS = { F32: Float32Array, I8: Int8Array, U8: Uint8Array }; // and F16, as in asking/shipped.py

function readNumbers(dtype, bytes) {
  if (dtype === "F16") return Float32Array.from(new Uint16Array(bytes.buffer), halfToNumber);
  if (!KINDS[dtype]) throw new Error(`Numbers of the kind ${dtype} cannot be read.`);
  return new KINDS[dtype](bytes.buffer);
}

// IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction.
function halfToNumber(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// The bytes that `pack_bytes` of equivocal/web/page.py has written as text.
export const unpack = ({ text, size }) => inflate(readDigits(text), size);

// Two characters of 91 are 13 bits, the highest first.
function readDigits(text) {
  const digits = new Uint8Array(128);
  let count = 0;
  for (let code = 33; code < 127; code += 1) {
    if (!'"\\<'.includes(String.fromCharCode(code))) digits[code] = count++;
  }
  const bytes = new Uint8Array(Math.floor(((text.length / 2) * 13) / 8));
  let [held, bits, at] = [0, 0, 0];
  for (let i = 0; i < text.length; i += 2) {
    held = (held << 13) | (digits[text.charCodeAt(i)] * count + digits[text.charCodeAt(i + 1)]);
    for (bits += 13; bits >= 8; bits -= 8) bytes[at++] = held >> (bits - 8);
    held &= (1 << bits) - 1;
  }
  return bytes;
}

const LENGTHS = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115,
  131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCES = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
  2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const LONGEST = 15; // bits of a code

// The `size` bytes that `packed` was made from.
function inflate(packed, size) {
  const out = new Uint8Array(size);
  const input = { data: packed, at: 0, held: 0, count: 0 };
  let written = 0;
  let last = 0;
  while (!last) {
    last = readBits(input, 1);
    const kind = readBits(input, 2);
    if (kind === 0) written = copyStored(input, out, written);
    else written = unpackBlock(input, out, written, kind === 1 ? fixedCodes() : readCodes(input));
  }
  return out;
}

// Reads bytes until `count` bits are held, or the data end.
function holdBits(input, count) {
  while (input.count < count && input.at < input.data.length) {
    input.held |= input.data[input.at] << input.count;
    input.at += 1;
    input.count += 8;
  }
}

// The next `count` bits, the lowest first.
function readBits(input, count) {
  holdBits(input, count);
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
    const symbol = readSymbol(input, literals);
    if (symbol === 256) return written;
    if (symbol < 256) {
      out[written] = symbol;
      written += 1;
    } else {
      const length = LENGTHS[symbol - 257] + readBits(input, LENGTH_BITS[symbol - 257]);
      const far = readSymbol(input, distances);
      const distance = DISTANCES[far] + readBits(input, far < 2 ? 0 : (far >> 1) - 1);
      for (let i = 0; i < length; i += 1) out[written + i] = out[written + i - distance];
      written += length;
    }
  }
}

// The next symbol, by a table that `tabulate` made.
function readSymbol(input, { table, longest }) {
  holdBits(input, longest);
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
  const [literals, distances, used] = [readBits(input, 5) + 257, readBits(input, 5) + 1, readBits(input, 4) + 4];
  const own = new Array(19).fill(0);
  for (let i = 0; i < used; i += 1) own[ORDER[i]] = readBits(input, 3);
  const table = tabulate(own);
  const lengths = [];
  while (lengths.length < literals + distances) {
    const symbol = readSymbol(input, table);
    if (symbol < 16) lengths.push(symbol);
    else if (symbol === 16) lengths.push(...new Array(3 + readBits(input, 2)).fill(lengths.at(-1)));
    else lengths.push(...new Array(symbol === 17 ? 3 + readBits(input, 3) : 11 + readBits(input, 7)).fill(0));
  }
  return { literals: tabulate(lengths.slice(0, literals)), distances: tabulate(lengths.slice(literals)) };
}
