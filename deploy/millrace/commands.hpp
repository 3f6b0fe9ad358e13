#pragma once
// The program's subcommands as functions, each in the file of its name. They print what they have to say and return the
// exit code.
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

enum ExitCode : int { done = 0, failed = 1, bad_use = 2 };

struct ServeCommand {
  std::string config;             // file
  std::vector<std::string> sets;  // section.key=value
  std::uint64_t steps = 0;        // published versions after which the service ends; 0 = never
  bool fresh = false;             // moves earlier state aside instead of going on from it
  bool json = false;              // one object a policy step on stdout
  bool no_learn = false;          // only answers: no sessions, no training
};
int serve(const ServeCommand& command);

struct CompareCommand {
  std::string config;
  std::vector<std::string> sets;
  std::vector<std::string> recipes;
  std::vector<std::string> variants;  // "name:key=value,key=value"; each is run with each recipe
  std::uint64_t steps = 100;          // published versions of each run
  int seeds = 1;                      // runs of each recipe; the config's seed and those after it
  int patience_s = 600;               // a run without a step for so long is ended, with the steps it has
  std::string traffic;                // shell command: applications beside each run; empty = none
  std::string out;                    // folder; empty = compare/<preset>
  bool json = false;                  // one object a run on stdout
};
int compare(const CompareCommand& command);

struct PretrainCommand {
  std::string config;
  std::vector<std::string> sets;
  std::string data;  // a ledger or a file of JSON lines
  std::string out;   // folder; empty = <state.directory>/pretrained
  bool json = false;
};
int pretrain_value(const PretrainCommand& command);

// What all commands share that talk to a running service.
struct ClientCommand {
  std::string address = "127.0.0.1:8700";
  std::string token_file;
  bool json = false;
};
int status(const ClientCommand& command);
int chat(const ClientCommand& command);
// pause, resume, drain, checkpoint, rollback; `body` is JSON
int operation(const ClientCommand& command, const std::string& name, const std::string& body);
int forget(const ClientCommand& command, const std::string& client);

struct ShiftCommand : ClientCommand {
  std::string spec;  // a spec's name, or a file that holds one
  std::string why;   // for the history
  std::string in_flight = "keep";
  double after_s = 0;
  double ramp_s = 0;
  bool dry_run = false;
};
int shift(const ShiftCommand& command);

struct TrajectoriesCommand : ClientCommand {
  std::string state;   // queued | trained | rejected; empty = all
  int limit = 20;      // newest first
  std::string config;  // with one of these two the ledger's file is read, no service is asked
  std::string state_dir;
};
int trajectories(const TrajectoriesCommand& command);

struct TraceCommand : ClientCommand {
  std::uint64_t id = 0;
  std::string config;  // with one of these two the ledger's file is read, no service is asked
  std::string state_dir;
};
int trace(const TraceCommand& command);

struct ReplayCommand {
  std::string config;
  std::vector<std::string> sets;
  std::string from, to;  // checkpoints
  std::string spec;      // reward spec to score with again
  bool json = false;
};
int replay(const ReplayCommand& command);

struct ExportCommand {
  std::string folder;  // to be made
  std::string config = "config/presets/quickstart.json";
  std::vector<std::string> sets;
  bool json = false;
};
int export_folder(const ExportCommand& command);

struct BenchCommand {
  std::string what;  // generate | learn | flow | publish
  std::string model = "third_party/SmolLM2-135M-Instruct.Q4_1.gguf";
  std::string dtype = "auto";
  int batch = 0;    // turns or trajectories; 0 = 16, learn: 8
  int prompt = 32;  // tokens
  int tokens = 0;   // new tokens a turn, or of a trajectory; 0 = 64, learn: 80
  int threads = 0;  // 0 = all cores
  int sessions = 64;
  bool recompute_activations = false;
  bool json = false;
};
int bench(const BenchCommand& command);

struct ConfigCommand {
  std::string config;
  std::vector<std::string> sets;
  bool json = false;
};
int config_check(const ConfigCommand& command);
int config_show(const ConfigCommand& command);
int config_schema();

}  // namespace millrace
