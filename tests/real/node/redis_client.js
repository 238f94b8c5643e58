// Asks the server with ioredis what the test compares, and prints the answers as JSON.
"use strict";

const Redis = require("ioredis");

async function main() {
  const [host, port, password] = process.argv.slice(2);
  const redis = new Redis({ host, port: Number(port), password, connectionName: "real", maxRetriesPerRequest: 1 });
  const answers = {};
  answers.ping = await redis.ping();
  answers.name = await redis.client("GETNAME");
  answers.throttle = await redis.call("CL.THROTTLE", "ioredis", "15", "30", "60");
  answers.check = await redis.call("TG.CHECK", "user", "ioredis");
  answers.error = await redis.call("CL.THROTTLE", "ioredis", "x", "1", "1").catch((error) => error.message);
  const pipeline = redis.pipeline();
  for (let i = 0; i < 100; i += 1) pipeline.call("CL.THROTTLE", "ioredis-many", "9", "1", "3600");
  answers.admitted = (await pipeline.exec()).filter(([error, answer]) => !error && answer[0] === 0).length;
  const transaction = redis.multi();
  for (let i = 0; i < 100; i += 1) transaction.call("CL.THROTTLE", "ioredis-transaction", "9", "1", "3600");
  answers.transaction = (await transaction.exec()).filter(([error, answer]) => !error && answer[0] === 0).length;
  answers.status = redis.status;
  await redis.quit();
  console.log(JSON.stringify(answers));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
