// What Netron shows of a model file, as JSON on stdout: node show.mjs NETRON-SOURCES FILE
// Invariant: Netron alone decides which format FILE has and how to read it; here are only a file, a folder of assets
// and the walk over the model that Netron's own windows do.
//
// Netron's sources are ES modules in .js files. Node takes them as such only below a package.json that says so, which
// the Python package lacks: NETRON-SOURCES must lie below one (a link to the package does, with --preserve-symlinks).

import fs from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [sources, file] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.resolve(sources, name)));

const { ModelFactoryService } = await load('view.js');
const { BinaryStream } = await load('base.js');
const zip = await load('zip.js');
await zip.Archive.import();

// Both the application and the open file, as in Netron's browser host.
const host = {
  type: 'Test',
  identifier: path.basename(file),
  stream: new BinaryStream(new Uint8Array(await fs.readFile(file))),
  asset: (name) => fs.readFile(path.resolve(sources, name), 'utf-8'),
  fetch: (name) => Promise.reject(new Error(`File not found '${name}'.`)),
  require: (id) => load(`${id}.js`),
  event: () => {},
  error: (error) => {
    throw error;
  },
};

const show_value = (value) => ({
  name: value.name,
  type: value.type ? value.type.dataType : null,
  shape: value.type ? value.type.shape.dimensions : null,
  constant: Boolean(value.initializer),
  bytes: value.initializer ? value.initializer.values.length : 0,
});

const show_argument = (argument) => ({ name: argument.name, values: argument.value.map(show_value) });

const show_attribute = ({ name, type, value }) =>
  type === 'tensor'
    ? { name, type: value.type.dataType, shape: value.type.shape.dimensions, bytes: Array.from(value.values) }
    : { name, type: type ?? null, value };

const show_node = (node) => ({
  name: node.name,
  type: node.type.name,
  inputs: node.inputs.map(show_argument),
  outputs: node.outputs.map(show_argument),
  attributes: node.attributes.map(show_attribute),
});

const show_graph = (graph) => ({
  name: graph.name,
  inputs: graph.inputs.map(show_argument),
  outputs: graph.outputs.map(show_argument),
  nodes: graph.nodes.map(show_node),
});

const model = await new ModelFactoryService(host).open(host);
const shown = { format: model.format, graphs: model.modules.map(show_graph) };
process.stdout.write(`${JSON.stringify(shown)}\n`);
