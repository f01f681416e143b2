// Asks a rate limit service a hundred times at once by grpc-js, and writes how often it has answered what.
// Usage: node ask.js ADDRESS DOMAIN KEY VALUE

const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [address, domain, key, value] = process.argv.slice(2);
const definition = loader.loadSync(path.join(__dirname, 'rls.proto'), {keepCase: true, enums: String});
const {RateLimitService} = grpc.loadPackageDefinition(definition).envoy.service.ratelimit.v3;
const client = new RateLimitService(address, grpc.credentials.createInsecure());

const ask = () => new Promise((resolve) => {
  const request = {domain, descriptors: [{entries: [{key, value}]}]};
  client.ShouldRateLimit(request, {deadline: Date.now() + 60000}, (error, response) => {
    resolve(error ? grpc.status[error.code] : response.overall_code);
  });
});

Promise.all(Array.from({length: 100}, ask)).then((answers) => {
  const counts = {};
  for (const answer of answers) {
    counts[answer] = (counts[answer] || 0) + 1;
  }
  console.log(JSON.stringify(counts));
  client.close();
});
