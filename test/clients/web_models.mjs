// Runs the models of case.json in onnxruntime-web, in Node.js and in browsers.
//
// Tensors are [dtype, shape, base64].

const KINDS = {
  float32: Float32Array,
  float16: Uint16Array,
  int64: BigInt64Array,
  int32: Int32Array,
  bool: Uint8Array,
};

const bytesOf = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));

function textOf(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 4096)
    text += String.fromCharCode(...bytes.subarray(i, i + 4096));
  return btoa(text);
}

const decoded = (ort, [type, shape, text]) =>
  new ort.Tensor(type, new KINDS[type](bytesOf(text).buffer), shape);

function encoded({ type, dims, data }) {
  return [type, dims, textOf(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))];
}

// Returns the results of one run for each set of inputs.
async function runModel(ort, session, asked) {
  const results = [];
  for (const set of asked.sets) {
    const feeds = {};
    for (const [name, tensor] of Object.entries(set)) feeds[name] = decoded(ort, tensor);
    const found = await session.run(feeds);
    results.push(asked.outputs.map((name) => encoded(found[name])));
  }
  return results;
}

// The tokens with the greatest logits at the last position.
function greatest({ dims, data }) {
  const [batch, length, count] = dims;
  return Array.from({ length: batch }, (_, row) => {
    const start = (row * length + length - 1) * count;
    let best = 0;
    for (let i = 1; i < count; ++i) if (data[start + i] > data[start + best]) best = i;
    return best;
  });
}

// Generates tokens with the cache of keys and values; returns one list for each step.
async function generate(ort, session, { prompt, mask, steps, past }) {
  const batch = prompt.length;
  const integers = (rows) =>
    new ort.Tensor("int64", BigInt64Array.from(rows.flat().map(BigInt)), [batch, rows[0].length]);
  const cache = {};
  for (const [name, tensor] of Object.entries(past)) cache[name] = decoded(ort, tensor);
  const tokens = [];
  let ids = prompt;
  let seen = mask;
  for (let step = 0; step < steps; ++step) {
    const positions = seen.map((row) => {
      let count = 0;
      const counted = row.map((each) => Math.max((count += each) - 1, 0));
      return counted.slice(-ids[0].length);
    });
    const feeds = { ...cache, input_ids: integers(ids), attention_mask: integers(seen) };
    if (session.inputNames.includes("position_ids")) feeds.position_ids = integers(positions);
    const found = await session.run(feeds);
    tokens.push(greatest(found.logits));
    for (const name of Object.keys(cache))
      cache[name] = found[name.replace("past_key_values", "present")];
    ids = tokens.at(-1).map((token) => [token]);
    seen = seen.map((row) => [...row, 1]);
  }
  return tokens;
}

// Returns for each model of case.json what it computes and the milliseconds of all its runs, or
// the error. `read` returns the bytes of a file.
export async function run(ort, read, provider) {
  ort.env.logLevel = "fatal";
  ort.env.wasm.numThreads = 1;
  const results = {};
  const cases = JSON.parse(new TextDecoder().decode(await read("case.json")));
  for (const [name, asked] of Object.entries(cases)) {
    try {
      const options = { logSeverityLevel: 4, executionProviders: [provider] };
      if (asked.data) options.externalData = [{ path: asked.data, data: await read(asked.data) }];
      const session = await ort.InferenceSession.create(await read(asked.model), options);
      const start = performance.now();
      const value = await (asked.prompt ? generate : runModel)(ort, session, asked);
      results[name] = { value, milliseconds: performance.now() - start };
      await session.release();
    } catch (error) {
      results[name] = { error: String(error.message ?? error) };
    }
  }
  return results;
}
