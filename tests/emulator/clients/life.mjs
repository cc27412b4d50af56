// A program: the whole life of a node and of a queued resource, through @google-cloud/tpu alone.
//
// Arguments: the gRPC address and the REST address of an emulator. The package is looked for
// beside the folder where Node.js was started. It prints the transports over which all went well.
import {createRequire} from 'node:module';
import {join} from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const {TpuClient} = require('@google-cloud/tpu').v2;
const {grpc} = require('google-gax');

const ZONE = 'projects/lab/locations/us-central2-b';
const WANTED = {acceleratorType: 'v4-8', runtimeVersion: 'tpu-ubuntu2204-base'};
const PATIENCE_MS = 30_000;
const NOT_FOUND = 5;

const check = (holds, what) => {
  if (!holds) throw new Error(what);
};

// Looks until something is in a state; GONE is no longer found. REST says it by HTTP's number.
async function until(look, state) {
  const ends = Date.now() + PATIENCE_MS;
  for (let seen = ''; seen !== state; ) {
    check(Date.now() < ends, `still ${seen}, not ${state}`);
    await new Promise(done => setTimeout(done, 20));
    try {
      const [shown] = await look();
      seen = shown.state.state ?? shown.state;
    } catch (error) {
      if (error.code !== NOT_FOUND && error.code !== 404) throw error;
      seen = 'GONE';
    }
  }
}

async function live(client, id) {
  const name = `${ZONE}/nodes/${id}`;
  const queued = `${ZONE}/queuedResources/${id}`;

  const [creation] = await client.createNode({parent: ZONE, nodeId: id, node: WANTED});
  const [node] = await creation.promise();
  check(node.name === name, `${node.name} was created`);
  await until(() => client.getNode({name}), 'READY');
  const [listed] = await client.listNodes({parent: ZONE});
  check(listed.map(one => one.name).join() === name, 'the list has another node');
  const [stop] = await client.stopNode({name});
  await stop.promise();
  await until(() => client.getNode({name}), 'STOPPED');
  const [deletion] = await client.deleteNode({name});
  await deletion.promise();
  await until(() => client.getNode({name}), 'GONE');

  const spec = {parent: ZONE, nodeId: id, node: WANTED};
  const asked = {tpu: {nodeSpec: [spec]}, spot: {}};
  await client.createQueuedResource({parent: ZONE, queuedResourceId: id, queuedResource: asked});
  await until(() => client.getQueuedResource({name: queued}), 'ACTIVE');
  const [queue] = await client.listQueuedResources({parent: ZONE});
  check(queue.map(one => one.name).join() === queued, 'the list has another queued resource');
  await client.deleteQueuedResource({name: queued, force: true});
  await until(() => client.getQueuedResource({name: queued}), 'GONE');
}

const [grpcAddress, restUrl] = process.argv.slice(2);
const address = url => {
  const {hostname, port} = new URL(url);
  return {apiEndpoint: hostname, port: Number(port)};
};
// Whoever asks no one for a token is nobody: an emulator does not mind.
const nobody = {getClient: async () => ({getRequestHeaders: async () => ({})}), getRequestHeaders: async () => ({})};

const overGrpc = new TpuClient({
  ...address(`http://${grpcAddress}`),
  sslCreds: grpc.credentials.createInsecure(),
});
await live(overGrpc, 'over-grpc');
console.log('grpc');

const overRest = new TpuClient({...address(restUrl), fallback: true, protocol: 'http', auth: nobody});
await live(overRest, 'over-rest');
console.log('rest');
