// A provider for tests/e2e/openid.rs: npm's `oidc-provider`, whose own pages sign any account in.
// node oidc-provider.mjs FOLDER-OF-THE-PACKAGE PORT CONSOLE
import { pathToFileURL } from "node:url";

const [folder, port, console_] = process.argv.slice(2);
// It prints advice for production, also after the test has stopped reading.
console.info = console.warn = () => {};
const { default: Provider } = await import(pathToFileURL(`${folder}/lib/index.js`));

const account = (id) => ({
  accountId: id,
  claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: true, groups: ["dev"] }),
});

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "olm-console",
      client_secret: "only for this test",
      redirect_uris: [`${console_}/oidc/callback`],
      post_logout_redirect_uris: [`${console_}/login`],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
  ],
  cookies: { keys: ["only for this test"] },
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  scopes: ["openid", "offline_access", "email", "groups"],
  // API servers read claims in the ID token.
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  ttl: { IdToken: 10, AccessToken: 60, RefreshToken: 600, Session: 600, Grant: 600, Interaction: 600 },
  features: { revocation: { enabled: true } },
  findAccount: (_, id) => account(id),
});

provider.on("grant.success", (ctx) => {
  if (ctx.oidc.params.grant_type === "refresh_token") process.stdout.write("renewed\n");
});
provider.listen(Number(port), "127.0.0.1", () => process.stdout.write("listens\n"));
// Ends with the test, whatever becomes of it.
process.stdin.on("end", () => process.exit(0)).resume();
