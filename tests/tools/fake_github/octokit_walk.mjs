// Walks through the simulated GitHub with octokit, which knows nothing of it: opens a pull request as a person, freezes
// its check as the App, sees the merge refused, and merges once the check passes.
// node octokit_walk.mjs BASE_URL PERSON_TOKEN APP_ID, with the App's private key on the standard input.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { App, Octokit } from "octokit";

const [baseUrl, token, appId] = process.argv.slice(2);
const Client = Octokit.defaults({ baseUrl, throttle: { enabled: false }, retry: { enabled: false } });
const web = { owner: "acme", repo: "web" };
const name = "change-freeze/main";
const { rest } = new Client({ auth: token });

const { data: user } = await rest.users.getAuthenticated();
assert.deepEqual([user.login, user.user_view_type, user.two_factor_authentication], ["maintainer", "private", true]);

const { data: start } = await rest.git.getRef({ ...web, ref: "heads/main" });
await rest.git.createRef({ ...web, ref: "refs/heads/feature/a", sha: start.object.sha });
const content = Buffer.from("hello\n").toString("base64");
const file = { path: "docs/a.txt", content, message: "Say hello", branch: "feature/a" };
const { data: written } = await rest.repos.createOrUpdateFileContents({ ...web, ...file });
const { data: head } = await rest.git.getRef({ ...web, ref: "heads/feature/a" });
assert.equal(head.object.sha, written.commit.sha);
const { data: matching } = await rest.git.listMatchingRefs({ ...web, ref: "heads/feature/" });
assert.deepEqual(matching.map((each) => each.ref), ["refs/heads/feature/a"]);

const { data: pull } = await rest.pulls.create({ ...web, head: "feature/a", base: "main", title: "Say hello" });
const numbered = { ...web, pull_number: pull.number };
const { data: files } = await rest.pulls.listFiles(numbered);
assert.deepEqual(files.map((each) => [each.filename, each.status, each.additions]), [["docs/a.txt", "added", 1]]);
const { data: commits } = await rest.pulls.listCommits(numbered);
assert.deepEqual(commits.map((each) => each.sha), [pull.head.sha]);
await rest.pulls.createReview({ ...numbered, event: "APPROVE", body: "Well done" });
const { data: reviews } = await rest.pulls.listReviews(numbered);
assert.deepEqual(reviews.map((each) => [each.state, each.body]), [["APPROVED", "Well done"]]);
const { data: issue } = await rest.issues.get({ ...web, issue_number: pull.number });
assert.equal(issue.pull_request.url, pull.url);

const app = new App({ appId, privateKey: readFileSync(0, "utf8"), Octokit: Client });
const { data: hook } = await app.octokit.rest.apps.getWebhookConfigForApp();
assert.equal(hook.content_type, "json");
const { data: installation } = await app.octokit.rest.apps.getRepoInstallation(web);
const { rest: bot, paginate } = await app.getInstallationOctokit(installation.id);
const { data: granted } = await bot.repos.getCollaboratorPermissionLevel({ ...web, username: user.login });
assert.deepEqual([granted.permission, granted.role_name], ["admin", "admin"]);

const place = { path: "docs/a.txt", start_line: 1, end_line: 1 };
const annotations = [{ ...place, annotation_level: "warning", message: "Changed in a freeze" }];
const output = { title: "Frozen", summary: "Until Monday", annotations };
const report = { ...web, name, head_sha: pull.head.sha };
const { data: frozen } = await bot.checks.create({ ...report, conclusion: "failure", output });
const { data: listed } = await bot.checks.listAnnotations({ ...web, check_run_id: frozen.id });
assert.deepEqual(listed.map((each) => each.message), ["Changed in a freeze"]);
const runs = await paginate(bot.checks.listForRef, { ...web, ref: "feature/a", check_name: name });
assert.deepEqual(runs.map((each) => each.conclusion), ["failure"]);
const { data: combined } = await rest.repos.getCombinedStatusForRef({ ...web, ref: "feature/a" });
assert.deepEqual([combined.sha, combined.state], [pull.head.sha, "pending"]);
await assert.rejects(rest.pulls.merge(numbered), { status: 405 });

await bot.checks.create({ ...report, conclusion: "success" });
const { data: merged } = await rest.pulls.merge(numbered);
const newest = await rest.repos.listCommits({ ...web, sha: "main", per_page: 1 });
assert.deepEqual(newest.data.map((each) => each.sha), [merged.sha]);
await rest.git.deleteRef({ ...web, ref: "heads/feature/a" });
