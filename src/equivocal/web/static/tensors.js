// tensors.js: reads the arrays of a safetensors file, 16-bit numbers included.

import { inflate } from "./inflate.js";

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

const KINDS = { F64: Float64Array, F32: Float32Array, I32: Int32Array, I16: Int16Array, I8: Int8Array,
  U8: Uint8Array, U16: Uint16Array, I64: BigInt64Array };

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

// The bytes that `pack_bytes` of equivocal/web/embedding.py has put into a text.
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
