// Reads the command line; each subcommand is a function of commands.hpp.
#include <CLI/CLI.hpp>

#include "deploy/millrace/console.hpp"
#include "deploy/millrace/memory.hpp"

namespace {

using namespace millrace;

CLI::App* add_client(CLI::App& app, const std::string& name, const std::string& help, ClientCommand& command) {
  auto* sub = app.add_subcommand(name, help);
  sub->add_option("--address", command.address, "HOST:PORT of the service")->capture_default_str();
  sub->add_option("--token-file", command.token_file, "File that holds the service's bearer token");
  sub->add_flag("--json", command.json, "Print JSON");
  return sub;
}

template <class Command>
void add_config(CLI::App* sub, Command& command) {
  sub->add_option("CONFIG", command.config, "Config file, e.g. config/presets/quickstart.json")->required();
  sub->add_option("--set", command.sets, "section.key=value, stronger than file and environment");
  sub->add_flag("--json", command.json, "Print JSON");
}

}  // namespace

int main(int argc, char** argv) {
  tune_memory();

  CLI::App app{"Millrace trains a language-model policy while it is being used."};
  app.name("millrace");
  app.require_subcommand(1);
  int code = done;

  ServeCommand serve_command;
  auto* serve_app = app.add_subcommand("serve", "Run the service: generate, score, train, answer");
  add_config(serve_app, serve_command);
  serve_app->add_option("--steps", serve_command.steps, "End after so many published versions (0: never)");
  serve_app->add_flag("--no-learn", serve_command.no_learn, "Only answer: no sessions, no training");
  serve_app->add_flag("--fresh", serve_command.fresh, "Start anew, earlier state moved aside");
  serve_app->callback([&] { code = serve(serve_command); });

  CompareCommand comparison;
  auto* compare_app = app.add_subcommand("compare", "Run recipes side by side: table, CSV, picture");
  add_config(compare_app, comparison);
  compare_app->add_option("--recipes", comparison.recipes, "Their names, separated by commas")
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false);
  compare_app
      ->add_option("--variant", comparison.variants,
                   "NAME:key=value,key=value; given several times, each recipe is run with each of them")
      ->allow_extra_args(false);
  compare_app->add_option("--steps", comparison.steps, "Published versions of each run")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  compare_app->add_option("--seeds", comparison.seeds, "Runs of each recipe, with seeds of their own")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  compare_app
      ->add_option("--patience", comparison.patience_s,
                   "Seconds after which a run that makes no step is ended, with the steps it has")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  compare_app->add_option(
      "--traffic", comparison.traffic,
      "A shell command run beside each run, which it ends: applications that talk to the service at "
      "$MILLRACE_ADDRESS (host:port)");
  compare_app->add_option("--out", comparison.out,
                          "Folder of what is written; compare/<preset> if not given. Runs that "
                          "are complete there are not done again");
  compare_app->callback([&] { code = compare(comparison); });

  PretrainCommand pretraining;
  auto* pretrain_app =
      app.add_subcommand("pretrain-value", "Train the critic on scored trajectories; goes on where it was stopped");
  add_config(pretrain_app, pretraining);
  pretrain_app->add_option("--data", pretraining.data, "A state directory, its ledger.sqlite, or a .jsonl file")
      ->required();
  pretrain_app->add_option("--out", pretraining.out,
                           "Folder for value.path; <state.directory>/pretrained if not given");
  pretrain_app->callback([&] { code = pretrain_value(pretraining); });

  ClientCommand client;
  add_client(app, "status", "Versions, counts and capacity of a running service", client)->callback([&] {
    code = status(client);
  });

  ShiftCommand change;
  auto* shift_app = add_client(app, "shift", "Replace what is rewarded, while the service runs", change);
  shift_app->add_option("SPEC", change.spec, "Name of a spec (cute), or a file that holds one")->required();
  shift_app->add_flag("--dry-run", change.dry_run, "Only say what it would change in the latest trajectories");
  shift_app->add_option("--why", change.why, "For the history");
  shift_app->add_option("--in-flight", change.in_flight, "What becomes of trajectories on their way")
      ->check(CLI::IsMember({"keep", "finish", "rescore", "expire"}))
      ->capture_default_str();
  shift_app->add_option("--ramp", change.ramp_s, "Seconds over which the old spec gives way to the new one");
  shift_app->add_option("--after", change.after_s, "Seconds until it begins");
  shift_app->callback([&] { code = shift(change); });

  add_client(app, "chat", "Talk to the policy; one line a message, /up, /down, /new and /quit", client)->callback([&] {
    code = chat(client);
  });

  const std::pair<const char*, const char*> operations[] = {
      {"pause", "No new sessions and no new steps until resume; chat goes on"},
      {"resume", "Go on after a pause"},
      {"drain", "End in order: running sessions, a last step, a checkpoint"},
      {"checkpoint", "Write a checkpoint now, and wait for it"}};
  for (const auto& [name, help] : operations) {
    add_client(app, name, help, client)->callback([&, which = name] { code = operation(client, which, ""); });
  }
  std::uint64_t version = 0;
  auto* rollback_app = add_client(app, "rollback", "Back to a checkpoint: policy, critic and optimizers", client);
  rollback_app->add_option("VERSION", version, "Its policy version")->required();
  rollback_app->callback(
      [&] { code = operation(client, "rollback", "{\"version\": " + std::to_string(version) + "}"); });
  std::string forgotten;
  auto* forget_app = add_client(app, "forget", "Delete what is kept of a client, and show what it has taught", client);
  forget_app->add_option("CLIENT", forgotten, "As it names itself (user, or x-millrace-client)")->required();
  forget_app->callback([&] { code = forget(client, forgotten); });

  TrajectoriesCommand list;
  auto* list_app = add_client(app, "trajectories", "What happened to which trajectory, newest first", list);
  list_app->add_option("--state", list.state, "Only these")->check(CLI::IsMember({"queued", "trained", "rejected"}));
  list_app->add_option("--limit", list.limit, "At most so many")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  auto* ledger_of = list_app->add_option("--config", list.config, "Read the ledger of this config, ask no service");
  list_app->add_option("--state-dir", list.state_dir, "Read the ledger in this folder, ask no service")
      ->excludes(ledger_of);
  list_app->callback([&] { code = trajectories(list); });

  ReplayCommand again;
  auto* replay_app = app.add_subcommand("replay", "Repeat what the learners did between two checkpoints");
  add_config(replay_app, again);
  replay_app->add_option("--from", again.from, "Checkpoint to begin with (default: the oldest)");
  replay_app->add_option("--to", again.to, "Checkpoint to end with (default: the newest)");
  replay_app->add_option("--spec", again.spec, "Score the answers again with this reward spec");
  replay_app->callback([&] { code = replay(again); });

  TraceCommand one;
  auto* trace_app = add_client(app, "trace", "What happened to one trajectory, stage by stage", one);
  trace_app->add_option("ID", one.id, "Its id")->required()->check(CLI::PositiveNumber);
  auto* trace_of = trace_app->add_option("--config", one.config, "Read the ledger of this config, ask no service");
  trace_app->add_option("--state-dir", one.state_dir, "Read the ledger in this folder, ask no service")
      ->excludes(trace_of);
  trace_app->callback([&] { code = trace(one); });

  ExportCommand exported;
  auto* export_app = app.add_subcommand("export", "Write the model as a folder that Hugging Face transformers loads");
  export_app->add_option("DIR", exported.folder, "Folder to be made")->required();
  export_app->add_option("--config", exported.config, "Config whose model is meant")->capture_default_str();
  export_app->add_option("--set", exported.sets, "section.key=value, stronger than file and environment");
  export_app->add_flag("--json", exported.json, "Print JSON");
  export_app->callback([&] { code = export_folder(exported); });

  BenchCommand benchmark;
  auto* bench_app = app.add_subcommand("bench", "How fast this machine runs it, and how far that is from its limits");
  bench_app->add_option("WHAT", benchmark.what, "generate, learn, flow or publish")
      ->required()
      ->check(CLI::IsMember({"generate", "learn", "flow", "publish"}));
  bench_app->add_option("--model", benchmark.model, "A GGUF file or a Hugging Face folder")->capture_default_str();
  bench_app->add_option("--dtype", benchmark.dtype, "Of the arithmetic; int8 generates and publishes only")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "int8"}))
      ->capture_default_str();
  bench_app->add_option("--batch", benchmark.batch, "Turns, or trajectories; 16 (learn: 8) if not given")
      ->check(CLI::Range(1, 4096));
  bench_app->add_option("--prompt", benchmark.prompt, "Tokens of each turn's prompt")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  bench_app->add_option("--tokens", benchmark.tokens, "New tokens a turn, 64; learn: tokens a trajectory, 80")
      ->check(CLI::Range(2, 1'000'000));
  bench_app->add_flag("--recompute-activations", benchmark.recompute_activations, "learn: activation checkpointing");
  bench_app->add_option("--threads", benchmark.threads, "0: all cores")->check(CLI::Range(0, 4096));
  bench_app->add_option("--sessions", benchmark.sessions, "flow: sessions under way")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  bench_app->add_flag("--json", benchmark.json, "Print JSON");
  bench_app->callback([&] { code = bench(benchmark); });

  ConfigCommand config;
  auto* config_app = app.add_subcommand("config", "Check and show settings");
  config_app->require_subcommand(1);
  auto* check_app = config_app->add_subcommand("check", "Is this config right?");
  add_config(check_app, config);
  check_app->callback([&] { code = config_check(config); });
  auto* show_app = config_app->add_subcommand("show", "All settings with their values, defaults included");
  add_config(show_app, config);
  show_app->callback([&] { code = config_show(config); });
  auto* schema_app = config_app->add_subcommand("schema", "JSON Schema of the config file");
  schema_app->add_flag("--json", config.json, "The schema is JSON in any case");
  schema_app->callback([&] { code = config_schema(); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return complain(bad_use, std::string(error.what()) + " (millrace --help)");
  }
  return code;
}
