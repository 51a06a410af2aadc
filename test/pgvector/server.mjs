// A PostgreSQL that runs inside this process, with the extension pgvector, on a port
// of loopback that the system chooses and that is printed. It ends with its input.
import { PGlite } from "@electric-sql/pglite";
import { vector } from "@electric-sql/pglite-pgvector";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";
import net from "node:net";

const free = () =>
  new Promise((resolve, reject) => {
    const s = net.createServer();
    s.on("error", reject);
    s.listen(0, "127.0.0.1", () => {
      const { port } = s.address();
      s.close(() => resolve(port));
    });
  });

const db = await PGlite.create({ extensions: { vector } });
const port = await free();
const server = new PGLiteSocketServer({ db, host: "127.0.0.1", port, maxConnections: 8 });
await server.start();
console.log(port);
process.stdin.resume();
process.stdin.on("end", async () => {
  await server.stop();
  await db.close();
  process.exit(0);
});
