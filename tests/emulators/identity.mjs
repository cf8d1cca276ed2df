// An OpenID provider for tests: npm's oidc-provider over TLS on a free port of 127.0.0.1. It keeps everything in memory.
// Its one argument is JSON: certificate and key (paths of PEM files), redirects (more redirect URIs of the client),
// idTokenSeconds. It prints its issuer once it listens. Any password is accepted; only the users below exist.
import { readFileSync } from "node:fs";
import { createServer } from "node:https";

import { generateKeyPair, exportJWK } from "jose";
import Provider from "oidc-provider";

const USERS = {
  alice: ["vision"],
  bob: ["speech"],
  lena: ["vision", "vision-leads"],
  olga: ["operators"],
  vera: ["vision-viewers"],
};

const settings = JSON.parse(process.argv[2]);
const { privateKey } = await generateKeyPair("RS256", { extractable: true });
const signing = { ...(await exportJWK(privateKey)), kid: "first", use: "sig", alg: "RS256" };

const server = createServer({ cert: readFileSync(settings.certificate), key: readFileSync(settings.key) });
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `https://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  jwks: { keys: [signing] },
  clients: [
    {
      client_id: "kaji",
      application_type: "native", // a redirect to the loopback interface may have any port (RFC 8252, 7.3)
      token_endpoint_auth_method: "none",
      redirect_uris: ["http://127.0.0.1/callback", "http://127.0.0.1/sign-in/callback", ...(settings.redirects ?? [])],
      grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"], profile: ["name"] },
  conformIdTokenClaims: false, // Kubernetes reads the groups from the ID token
  cookies: { keys: ["not-a-secret"] },
  features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true }, revocation: { enabled: true } },
  findAccount: (_, id) =>
    USERS[id] && {
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: true, name: id, groups: USERS[id] }),
    },
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  loadExistingGrant: async (ctx) => {
    // Nobody is asked for consent: the client belongs to the same organisation.
    const { client, session, params } = ctx.oidc;
    const grant = new ctx.oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope(params.scope);
    await grant.save();
    return grant;
  },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  ttl: { AccessToken: 600, DeviceCode: 300, Grant: 3600, IdToken: settings.idTokenSeconds ?? 600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
});
server.on("request", provider.callback());
console.log(`issuer ${issuer}`);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0)); // the test that started it is gone
