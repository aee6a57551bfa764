// Serves emulate's GitHub and Slack, and prints where and with which secrets; argument: the seed. It ends with its input.
import { createEmulator } from "emulate";

const seed = JSON.parse(process.argv[2]);
const served = {};
for (const service of ["github", "slack"]) {
  const { url, generatedSecrets } = await createEmulator({ service, port: 0, seed });
  served[service] = { url, secrets: generatedSecrets };
}
console.log(JSON.stringify(served));
process.stdin.on("end", () => process.exit(0)).resume();
