// Starts Azurite's table service and prints its address; ends, with all saved,
// when standard input does. Arguments: a port, 0 for a free one, and a folder,
// none to keep everything in memory.
'use strict';
const path = require('path');
const { default: Configuration } = require('azurite/dist/src/table/TableConfiguration');
const { default: Server } = require('azurite/dist/src/table/TableServer');

const [port, folder] = process.argv.slice(2);
const server = new Server(new Configuration(
  '127.0.0.1', Number(port), 5, path.join(folder || '.', 'tables.json'),
  false, false, undefined, undefined, // no logs
  false, false, '', '', '', undefined, false, !folder,
));
server.start().then(() => {
  console.log(server.getHttpServerAddress());
  process.stdin.resume();
  process.stdin.on('end', () => server.close().then(() => process.exit(0)));
}, (error) => {
  console.error(error);
  process.exit(1);
});
