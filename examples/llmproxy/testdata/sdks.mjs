// Asks the proxy by the SDKs of OpenAI and of Anthropic, and prints how each request went. The SDKs are those of the directory in SDKS.
import { createRequire } from 'node:module';

const require = createRequire(process.env.SDKS + '/');
const OpenAI = require('openai').default;
const Anthropic = require('@anthropic-ai/sdk').default;

let attempts, told;
const counted = async (url, init) => {
  attempts++;
  const answer = await fetch(url, init);
  const headers = new Headers(answer.headers);
  if (answer.status === 429) {
    told.push(Number(headers.get('retry-after-ms')));
    headers.set('retry-after', '86400'); // an SDK that read it in place of the milliseconds would not come back
  }
  return new Response(answer.body, { status: answer.status, headers });
};

const options = { baseURL: process.env.PROXY, maxRetries: 1, fetch: counted };
const sdks = {
  openai: (key) => new OpenAI({ ...options, apiKey: key }),
  anthropic: (key) => new Anthropic({ ...options, apiKey: null, authToken: key }),
};

const said = async (sdk, key, content) => {
  attempts = 0;
  told = [];
  const started = performance.now();
  let status = 200, names = '';
  try {
    const body = { model: 'parrot', max_tokens: 1, stream: true, messages: [{ role: 'user', content }] };
    const answer = await sdks[sdk](key).post('/v1/chat/completions', { body }).asResponse();
    await answer.text();
    names = [...answer.headers.keys()].join(' ');
  } catch (err) {
    status = err.status;
    names = [...(err.headers ?? new Headers()).keys()].join(' ') + (status === 429 ? '' : ' ' + err);
  }
  return { sdk, status, attempts, told: told[0] ?? 0, took: performance.now() - started, names };
};

for (const [sdk, key, content] of JSON.parse(process.env.ASK)) {
  console.log(JSON.stringify(await said(sdk, key, content)));
}
