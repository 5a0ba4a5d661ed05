/** Sounds as WAV files of 16 bits, made in the page: a sound element cannot send a token. */

const HEADER_BYTES = 44;

/** Loudest value: a sound that is louder is made quieter as a whole, so that nothing is clipped. */
function loudest(values: ArrayLike<number>): number {
  let largest = 1;
  for (let index = 0; index < values.length; index += 1) {
    const size = Math.abs(values[index] as number);
    if (size > largest && size < Number.POSITIVE_INFINITY) largest = size;
  }
  return largest;
}

/** A file of `channels` rows of equal length; what is not finite is silent. */
export function wavBytes(values: ArrayLike<number>, channels: number, rate: number): ArrayBuffer {
  const length = Math.floor(values.length / channels);
  const bytes = length * channels * 2;
  const view = new DataView(new ArrayBuffer(HEADER_BYTES + bytes));
  const word = (at: number, text: string) => {
    for (let index = 0; index < text.length; index += 1) view.setUint8(at + index, text.charCodeAt(index));
  };
  word(0, "RIFF");
  view.setUint32(4, 36 + bytes, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // plain samples
  view.setUint16(22, channels, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * channels * 2, true);
  view.setUint16(32, channels * 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, bytes, true);
  const factor = 32_767 / loudest(values);
  for (let time = 0; time < length; time += 1)
    for (let channel = 0; channel < channels; channel += 1) {
      const value = values[channel * length + time] as number;
      const at = HEADER_BYTES + (time * channels + channel) * 2;
      view.setInt16(at, Number.isFinite(value) ? Math.round(value * factor) : 0, true);
    }
  return view.buffer;
}
