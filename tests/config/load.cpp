#include "config/load.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <random>
#include <set>
#include <tuple>

#include "config/fields.hpp"
#include "config/nearest.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

// Loads the text as a config file x.json; errors name the file as "x.json".
expected<Settings> load(const std::string& text, const Overrides& overrides = {}) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/x.json";
  std::ofstream(file, std::ios::binary) << text;
  auto settings = load_settings(file, overrides);
  if (settings) return settings;
  std::string message = settings.error().message;
  if (const auto at = message.find(file); at != std::string::npos) message.replace(at, file.size(), "x.json");
  return fail(message);
}

std::string error_of(const std::string& text, const Overrides& overrides = {}) {
  const auto settings = load(text, overrides);
  return settings ? "no error" : settings.error().message;
}

Overrides sets(std::vector<std::string> values) { return {.environment = {}, .sets = std::move(values)}; }
Overrides variable(const std::string& name, const std::string& value) {
  return {.environment = {{name, value}}, .sets = {}};
}

}  // namespace

TEST_CASE("an empty file gives the defaults") {
  const auto settings = load("{}");
  REQUIRE(settings);
  CHECK(settings->recipe.name == "sao");
  CHECK(settings->batch == 128);
  CHECK(settings->min_batch == 128);
  CHECK(settings->policy.lr == 1e-6);
  CHECK(settings->preset == "x");
  CHECK(settings->state.directory == "state/x");
}

TEST_CASE("values, sections and comments") {
  const auto settings = load(R"(// what it is
    {"recipe": "sao", "batch": 8, /* seconds */ "max_wait_s": 2, "seed": 18446744073709551615,
     "policy": {"lr": 1e-5, "dtype": "bfloat16"}, "model": {"random": {"heads": 8}}, "state": {"directory": "d"}})");
  REQUIRE(settings);
  CHECK(settings->batch == 8);
  CHECK(settings->min_batch == 8);  // follows batch where it is not given
  CHECK(settings->max_wait_s == 2.0);
  CHECK(settings->seed == 18446744073709551615ull);
  CHECK(settings->policy.lr == 1e-5);
  CHECK(settings->policy.dtype == "bfloat16");
  CHECK(settings->model.random.heads == 8);
  CHECK(settings->state.directory == "d");
}

TEST_CASE("file < environment variable < --set, the last --set wins") {
  Overrides overrides = variable("MILLRACE_POLICY__LR", "1e-5");
  CHECK(load(R"({"policy": {"lr": 1e-4}})", overrides)->policy.lr == 1e-5);
  overrides.sets = {"policy.lr=2e-5", "policy.lr=3e-5"};
  CHECK(load(R"({"policy": {"lr": 1e-4}})", overrides)->policy.lr == 3e-5);
}

TEST_CASE("environment variables") {
  CHECK(load("{}", variable("MILLRACE_MODEL__RANDOM__KV_HEADS", "4"))->model.random.kv_heads == 4);
  CHECK(load("{}", variable("MILLRACE_BATCH", "5"))->batch == 5);
  CHECK(load("{}", variable("PATH", "/bin")));
  CHECK(load("{}", variable("MILLRACE_PORT", "tcp://10.0.0.1:8700")));  // Kubernetes' own
  CHECK(error_of("{}", variable("MILLRACE_POLICY__LT", "1")) ==
        R"(MILLRACE_POLICY__LT: unknown key "policy.lt": did you mean "policy.lr"?)");
  CHECK(error_of("{}", variable("MILLRACE_POLICY__LR", "fast")) ==
        R"(MILLRACE_POLICY__LR: "policy.lr" is "fast": expected a number from 0 to 1)");
}

TEST_CASE("--set takes JSON or a bare word") {
  CHECK(load("{}", sets({"reward.spec=cute"}))->reward.spec == "cute");
  CHECK(load("{}", sets({R"(reward.spec="cute")"}))->reward.spec == "cute");
  CHECK(load("{}", sets({"model.path=123"}))->model.path == "123");
  CHECK(load("{}", sets({"model.path=a=b"}))->model.path == "a=b");
  CHECK(load("{}", sets({"model.path="}))->model.path.empty());
  CHECK(error_of("{}", sets({"batch"})) == "--set batch: expected key=value, like policy.lr=1e-5");
  CHECK(error_of("{}", sets({"batch="})) == R"(--set batch=: "batch" is "": expected an integer from 1 to 65536)");
  CHECK(error_of("{}", sets({"policy={}"})).find("unknown key \"policy\"") != std::string::npos);
}

TEST_CASE("a device is the CPU or a GPU by number") {
  for (const char* device : {"cpu", "cuda", "cuda:0", "cuda:15"}) {
    CHECK(load("{}", sets({std::string("value.device=") + device}))->value.device == device);
  }
  for (const char* device : {"gpu", "cuda:", "cuda:x", "cuda:100", "cuda:-1", "CUDA"}) {
    const std::string key = "policy.device";
    CHECK(error_of("{}", sets({key + "=" + device}))
              .ends_with("\"" + key + "\" is \"" + device + "\": expected cpu, cuda or cuda:N"));
  }
  CHECK(error_of("{}", sets({"generation.dtype=int8", "generation.device=cuda"})).find("int8") != std::string::npos);
}

TEST_CASE("an unknown key is an error that names the nearest one") {
  CHECK(error_of(R"({"generation": {"temprature": 1}})") ==
        R"(x.json: unknown key "generation.temprature": did you mean "generation.temperature"?)");
  CHECK(error_of(R"({"temperature": 1})") ==
        R"(x.json: unknown key "temperature": did you mean "generation.temperature"?)");
  CHECK(error_of(R"({"bacth": 1})") == R"(x.json: unknown key "bacth": did you mean "batch"?)");
  CHECK(error_of(R"({"polcy": {"lr": 1}})").find("unknown key \"polcy\"") != std::string::npos);
}

TEST_CASE("wrong types") {
  CHECK(error_of(R"({"batch": "16"})") == R"(x.json: "batch" is "16": expected an integer from 1 to 65536)");
  CHECK(error_of(R"({"batch": 16.5})") == R"(x.json: "batch" is 16.5: expected an integer from 1 to 65536)");
  CHECK(error_of(R"({"batch": true})") == R"(x.json: "batch" is true: expected an integer from 1 to 65536)");
  CHECK(error_of(R"({"policy": {"lr": null}})") == R"(x.json: "policy.lr" is null: expected a number from 0 to 1)");
  CHECK(error_of(R"({"policy": {"lr": {"a": 1}}})").find("\"policy.lr\" is {\"a\":1}") != std::string::npos);
  CHECK(error_of(R"({"policy": 1})") == R"(x.json: "policy" is 1: expected an object with its keys)");
  CHECK(error_of(R"({"model": {"path": 1}})") == R"(x.json: "model.path" is 1: expected a string)");
  CHECK(error_of("[]") == "x.json: is []: expected an object with settings");
}

TEST_CASE("out of range") {
  for (const char* text :
       {R"({"batch": 0})", R"({"batch": 4294967297})", R"({"max_lag": -1})", R"({"seed": -1})",
        R"({"policy": {"lr": -1e-9}})", R"({"value": {"updates_per_step": 0}})", R"({"http": {"port": 65536}})",
        R"({"generation": {"temperature": 0}})", R"({"generation": {"temperature": -1}})",
        R"({"generation": {"top_p": 0}})", R"({"generation": {"top_p": 1.01}})", R"({"generation": {"top_k": -1}})",
        R"({"environment": {"deadline_s": 0}})"}) {
    CAPTURE(text);
    CHECK(error_of(text).find(": expected a") != std::string::npos);
  }
  CHECK(error_of(R"({"generation": {"temperature": 0}})") ==
        R"(x.json: "generation.temperature" is 0: expected a number above 0 and at most 100)");
  CHECK(load(R"({"generation": {"top_p": 1, "top_k": 0}, "max_lag": 0, "http": {"port": 0}})"));
}

TEST_CASE("numbers are finite") {
  CHECK(error_of(R"({"policy": {"lr": 1e999}})").find("x.json: ") == 0);
  CHECK(error_of(R"({"policy": {"lr": NaN}})").find("x.json:1:") == 0);
  for (const char* text : {"nan", "inf", "-inf", "Infinity", "1e999"}) {
    CAPTURE(text);
    CHECK(error_of("{}", sets({std::string("max_wait_s=") + text})).find("expected a number") != std::string::npos);
  }
}

TEST_CASE("words") {
  CHECK(error_of(R"({"pacing": "later"})") ==
        R"(x.json: "pacing" is "later": expected one of "async", "just_in_time", "sync", "lockstep")");
  CHECK(error_of(R"({"recipe": "ppo"})").find(R"(expected one of "sao", "grpo", "grpo_dis", "vapo")") !=
        std::string::npos);
  CHECK(error_of(R"({"value": {"freeze": "all"}})") ==
        R"(x.json: "value.freeze" is "all": expected one of "none", "attention", "all_but_head")");
  CHECK(error_of(R"({"grouping": {"drop_equal": 1}})") ==
        R"(x.json: "grouping.drop_equal" is 1: expected true or false)");
}

TEST_CASE("what belongs together") {
  CHECK(error_of(R"({"batch": 16, "min_batch": 17})") ==
        R"(x.json: "min_batch" is 17, but "batch" is 16: expected min_batch <= batch)");
  CHECK(load(R"({"batch": 16, "min_batch": 16})"));
  CHECK(error_of(R"({"model": {"random": {"heads": 4, "kv_heads": 3}}})").find("multiple of kv_heads") !=
        std::string::npos);
  CHECK(error_of(R"({"model": {"random": {"hidden": 20}}})").find("multiple of 2 * heads") != std::string::npos);
  CHECK(error_of(R"({"generation": {"max_tokens": 64}, "model": {"max_context": 64}})").find("room for a prompt") !=
        std::string::npos);
}

TEST_CASE("groups fit into batches and sessions") {
  const std::string grpo = R"({"recipe": "grpo", "grouping": {"size": 4}, )";
  CHECK(error_of(grpo + R"("batch": 16, "sessions": {"limit": 3}})") ==
        R"(x.json: "sessions.limit" is 3, but "grouping.size" is 4: expected room for a whole group, )"
        R"(sessions.limit >= grouping.size)");
  CHECK(error_of(grpo + R"("batch": 18})").find("expected batch to be a multiple of grouping.size") !=
        std::string::npos);
  CHECK(error_of(R"({"recipe": "grpo", "grouping": {"size": 1}})").find("expected groups of at least 2") !=
        std::string::npos);
  CHECK(load(grpo + R"("batch": 16, "sessions": {"limit": 4}})"));
}

// DESIGN, section 4: every column of the table.
TEST_CASE("a recipe brings its numbers, wherever it is named, and every one can be overruled") {
  struct Row {
    const char* name;
    int group;
    bool drop_equal;
    const char* baseline;
    double low, high;
    const char* mean_over;
    int mini_batches;
  };
  const Row rows[] = {{"sao", 1, false, "value", 0.3, 5.0, "tokens", 1},
                      {"grpo", 4, false, "group", 0.2, 0.2, "sequence", 1},
                      {"grpo_dis", 4, false, "group", 0.3, 5.0, "tokens", 1},
                      {"vapo", 4, false, "value", 0.2, 0.28, "tokens", 1},
                      {"dapo", 4, true, "group", 0.2, 0.28, "tokens", 1},
                      {"gspo", 4, false, "group", 3e-4, 4e-4, "sequence", 1},
                      {"decoupled_ppo", 4, false, "group", 0.2, 0.2, "tokens", 4},
                      {"running_mean", 1, false, "running_mean", 0.3, 5.0, "tokens", 1}};
  REQUIRE(recipe_names().size() == std::size(rows));
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto settings = load("{}", sets({std::string("recipe=") + row.name}));
    REQUIRE(settings);
    const Recipe& recipe = settings->recipe;
    CHECK(recipe.name == row.name);
    CHECK(recipe.grouping.size == row.group);
    CHECK(recipe.grouping.drop_equal == row.drop_equal);
    CHECK(recipe.baseline.kind == row.baseline);
    CHECK(recipe.baseline.window == 128);
    CHECK(recipe.baseline.gamma == 1.0);
    CHECK(recipe.baseline.lambda_value == 1.0);
    CHECK(recipe.trust_region.low == row.low);
    CHECK(recipe.trust_region.high == row.high);
    CHECK(recipe.loss.mean_over == row.mean_over);
    CHECK(recipe.loss.mini_batches == row.mini_batches);
    CHECK(recipe.loss.kl_weight == 0);
    CHECK(recipe.loss.entropy_weight == 0);
    CHECK(settings->pacing == "async");
  }
  const auto sao = load("{}"), vapo = load(R"({"recipe": "vapo"})");
  CHECK(sao->recipe.baseline.lambda_policy_alpha == 1.5);
  CHECK(sao->value.updates_per_step == 2);
  CHECK(sao->value.freeze == "attention");
  CHECK(sao->value.warmup_steps == 10);
  CHECK(vapo->recipe.baseline.lambda_policy_alpha == 0.05);
  CHECK(vapo->recipe.loss.nll_weight == 0.1);
  CHECK(vapo->value.updates_per_step == 1);
  CHECK(vapo->value.freeze == "none");
  CHECK(vapo->value.warmup_steps == 50);
  CHECK(load(R"({"recipe": "dapo"})")->recipe.grouping.overlong_share > 0);

  const auto overruled =
      load(R"({"value": {"warmup_steps": 3}, "trust_region": {"low": 0.1}, "recipe": "sao"})", sets({"recipe=vapo"}));
  REQUIRE(overruled);
  CHECK(overruled->recipe.name == "vapo");
  CHECK(overruled->value.warmup_steps == 3);
  CHECK(overruled->recipe.trust_region.low == 0.1);
  CHECK(overruled->recipe.trust_region.high == 0.28);
}

TEST_CASE("off loopback a token file is needed") {
  for (const char* address : {"0.0.0.0", "::", "10.0.0.1", "127.example.com", ""}) {
    CAPTURE(address);
    CHECK(error_of("{}", sets({std::string("http.address=") + address})).find("http.token_file") != std::string::npos);
    CHECK(load("{}", sets({std::string("http.address=") + address, "http.token_file=token"})));
  }
  for (const char* address : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    CAPTURE(address);
    CHECK(load("{}", sets({std::string("http.address=") + address})));
  }
}

TEST_CASE("the file is read strictly") {
  CHECK(error_of("{\n  \"batch\": 16,\n  \"max_lag\" 4\n}").find("x.json:3:13: ") == 0);
  CHECK(error_of("").find("x.json:1:1: ") == 0);
  CHECK(error_of("{} {}").find("x.json:1:4: ") == 0);
  CHECK(error_of("{\"batch\": 1,}").find("x.json:1:13: ") == 0);
  CHECK(error_of(R"({"policy": {"lr": 1e-5, "dtype": "auto", "lr": 1e-4}})") ==
        R"(x.json: key "policy.lr" stands twice: keep one of them)");
  CHECK(error_of(R"({"batch": 1, "policy": {}, "batch": 1})") ==
        R"(x.json: key "batch" stands twice: keep one of them)");
  CHECK(load(R"({"policy": {"lr": 1e-5}, "value": {"lr": 1e-5}})"));  // same name, other section
  const auto missing = load_settings("/nowhere/y.json", {});
  REQUIRE(!missing);
  CHECK(missing.error().message == "/nowhere/y.json: cannot be read: No such file or directory");
  const TemporaryDirectory directory;
  const auto folder = load_settings(directory.path(), {});
  REQUIRE(!folder);
  CHECK(folder.error().message == directory.path() + ": is a folder, expected a JSON file");
}

TEST_CASE("every broken file is an error, never a crash") {
  const std::string good = R"({"batch": 16, "policy": {"lr": 1e-5}, "reward": {"spec": "cute"}, "seed": 3})";
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    if (round % 5 == 0) text.resize(random() % text.size());
    const auto settings = load(text);
    if (settings)
      CHECK(settings->batch >= 1);
    else
      CHECK(settings.error().message.starts_with("x.json:"));
  }
}

TEST_CASE("what is shown can be loaded, and is the same again") {
  const auto first = load(
      R"({"batch": 7, "loss": {"kl_weight": 0.1}, "policy": {"lr": 0.1}, "seed": 9, "state": {"directory": "d"}})");
  REQUIRE(first);
  const auto document = to_json(*first);
  CHECK(document["recipe"] == "sao");
  CHECK(document["policy"]["lr"] == 0.1);
  CHECK(document["model"]["random"]["kv_heads"] == 2);
  const auto second = load(document.dump());
  REQUIRE(second);
  CHECK(to_json(*second) == document);
}

TEST_CASE("the table holds each key once, with a default it allows itself") {
  Settings settings;
  std::set<std::string> keys;
  for (const Field& field : fields_of(settings)) {
    CAPTURE(field.key);
    CHECK(keys.insert(field.key).second);
    CHECK(!field.meaning.empty());
  }
  for (const char* key : {"recipe",
                          "model.path",
                          "environment.name",
                          "reward.spec",
                          "batch",
                          "min_batch",
                          "max_wait_s",
                          "max_lag",
                          "sessions.limit",
                          "generation.max_tokens",
                          "generation.temperature",
                          "policy.lr",
                          "policy.dtype",
                          "value.lr",
                          "value.updates_per_step",
                          "value.freeze",
                          "value.warmup_steps",
                          "pacing",
                          "http.address",
                          "http.port",
                          "http.token_file",
                          "state.directory",
                          "seed",
                          "threads"}) {
    CAPTURE(key);
    CHECK(keys.count(key) == 1);
  }
  CHECK(load(to_json(Settings{}).dump()));
}

TEST_CASE("the schema") {
  const auto schema = settings_schema();
  CHECK(schema["type"] == "object");
  CHECK(schema["additionalProperties"] == false);
  const auto& policy = schema["properties"]["policy"];
  CHECK(policy["additionalProperties"] == false);
  CHECK(policy["properties"]["lr"]["type"] == "number");
  CHECK(policy["properties"]["lr"]["default"] == 1e-6);
  CHECK(policy["properties"]["dtype"]["enum"] == std::vector<std::string>{"auto", "float32", "bfloat16"});
  CHECK(schema["properties"]["batch"]["minimum"] == 1);
  CHECK(schema["properties"]["batch"]["maximum"].is_number_integer());
  CHECK(schema["properties"]["generation"]["properties"]["temperature"]["exclusiveMinimum"] == 0.0);
  CHECK(schema["properties"]["model"]["properties"]["random"]["properties"]["heads"]["type"] == "integer");
}

TEST_CASE("the shipped presets") {
  const std::string presets = std::string(MILLRACE_SOURCE_DIR) + "/config/presets/";
  const auto quickstart = load_settings(presets + "quickstart.json", {});
  REQUIRE_MESSAGE(quickstart, quickstart.error().message);
  CHECK(quickstart->preset == "quickstart");
  CHECK(quickstart->state.directory == "state/quickstart");
  CHECK(quickstart->model.path == "third_party/SmolLM2-135M-Instruct.Q4_1.gguf");
  CHECK(quickstart->environment.name == "writing");
  CHECK(quickstart->batch == 16);
  CHECK(quickstart->min_batch == 16);
  CHECK(quickstart->value.warmup_steps == 2);
  const auto tiny = load_settings(presets + "tiny.json", {});
  REQUIRE_MESSAGE(tiny, tiny.error().message);
  CHECK(tiny->model.path.empty());
  CHECK(tiny->environment.name == "letters");
  CHECK(tiny->reward.spec == "vowels");
  // SAO, section 4: the paper's numbers.
  for (const auto& [name, low, high] : {std::tuple{"math", 0.3, 5.0}, {"coding", 0.8, 3.0}}) {
    const auto paper = load_settings(presets + name + ".json", {});
    REQUIRE_MESSAGE(paper, paper.error().message);
    CHECK(paper->recipe.trust_region.low == low);
    CHECK(paper->recipe.trust_region.high == high);
    CHECK(paper->batch == 128);
    CHECK(paper->policy.lr == 1e-6);
    CHECK(paper->value.lr == 5e-6);
    CHECK(paper->value.warmup_steps == 10);
    CHECK(paper->environment.max_turns == 300);
  }
}

TEST_CASE("the nearest name") {
  CHECK(nearest("chunibyou", {"chuunibyou", "cute"}) == "chuunibyou");
  CHECK(nearest("lr", {"batch", "policy.lr"}) == "policy.lr");
  CHECK(nearest("", {"ab", "a"}) == "a");
}
