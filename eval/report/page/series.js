"use strict";
// Series of the task browser: unpacking them, marks of an axis, numbers as text.

const taskSeries = (() => {
  // Unpacking: what eval/report/browser.py packs.
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const content = new Uint8Array(await new Response(stream).arrayBuffer());
    const size = new DataView(content.buffer).getUint32(0, true);
    const headers = JSON.parse(new TextDecoder().decode(content.subarray(4, 4 + size)));
    const total = headers.reduce((sum, header) => sum + header.steps, 0);
    const high = content.subarray(4 + size, 4 + size + total);
    const low = content.subarray(4 + size + total);
    let start = 0;
    return headers.map((header) => {
      const values = new Float64Array(header.steps);
      let code = 0;
      for (let step = 0; step < header.steps; step++) {
        code = (code + high[start + step] * 256 + low[start + step]) & 65535;
        values[step] = code === 65535 ? NaN : header.low + header.scale * code;
      }
      start += header.steps;
      return { ...header, values };
    });
  }

  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(at);
    return found;
  }

  const number = (value) =>
    Number.isFinite(value)
      ? (value === 0 ? 0 : Number(value.toPrecision(4))).toLocaleString("en", { maximumSignificantDigits: 4 }).replace("-", "−")
      : "–";

  return { unpack, ticks, number };
})();
