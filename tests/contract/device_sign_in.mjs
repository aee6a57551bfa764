// Signs a device in through openid-client, which knows of this service what its metadata say.
// node device_sign_in.mjs ISSUER PATH prints "code <user code>", then the error of each poll that has to go on; at the
// end "session <session token>", and "answered <status> <body>" of the API's GET PATH with the access token.
import * as client from "openid-client";

const [issuer, path] = process.argv.slice(2);

/** Tells on the way what the service answers to polls that have to go on. */
async function overheard(url, options) {
  const response = await fetch(url, options);
  if (response.status === 400) console.log((await response.clone().json()).error);
  return response;
}

const options = { algorithm: "oauth2", execute: [client.allowInsecureRequests], [client.customFetch]: overheard };
const configuration = await client.discovery(new URL(issuer), "freeze-cli", undefined, client.None(), options);
const asked = await client.initiateDeviceAuthorization(configuration, {});
console.log(`code ${asked.user_code}`);

const tokens = await client.pollDeviceAuthorizationGrant(configuration, { ...asked, interval: 1 });
console.log(`session ${tokens.session_token}`);
const address = new URL(path, issuer);
const answer = await client.fetchProtectedResource(configuration, tokens.access_token, address, "GET");
console.log(`answered ${answer.status} ${await answer.text()}`);
