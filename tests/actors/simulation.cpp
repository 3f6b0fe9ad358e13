// The flow of the service in virtual time, on one thread, under seeded faults: sessions that fail, hang and die,
// messages that wait or overtake others, torn checkpoints, rollbacks, and crashes of the whole process at any message.
// The learners are toys that remember what they were taught: each trajectory is a direction of its own, so the weights
// say what was trained how often, independently of the ledger. Gatekeeper, sessions, host, checkpointer, ledger and
// checkpoint store are the real ones. A failure names its seed.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "actors/checkpointer.hpp"
#include "actors/gatekeeper.hpp"
#include "actors/session_host.hpp"
#include "runtime/resumption.hpp"
#include "tests/actors/fixture.hpp"
#include "tests/temporary_directory.hpp"

using namespace millrace;

namespace {

constexpr int batch = 3;

// What all actors of one incarnation share. Chance is drawn in the order of events, which follows from the seed.
struct Fate {
  std::mt19937 random;
  Version published = 0;  // newest weights the generator has
  bool chance(double p) { return std::uniform_real_distribution<>()(random) < p; }
  std::chrono::milliseconds delay() { return std::chrono::milliseconds(random() % 400); }
};

class FatefulEnvironment : public Environment {
 public:
  explicit FatefulEnvironment(Fate& fate) : fate_(fate) {}
  expected<Task> reset(std::uint64_t) override {
    if (fate_.chance(0.03)) return fail("no task");
    return Task{{{"user", "go"}}, "go", ""};
  }
  expected<Observation> step(const std::string&) override {
    if (fate_.chance(0.03)) return fail("tool died");
    if (fate_.chance(0.03)) throw std::runtime_error("a bug");
    return Observation{};
  }

 private:
  Fate& fate_;
};

// Delays are messages to itself.
GeneratorActor::behavior_type toy_generator(GeneratorActor::pointer self, Fate* fate) {
  return {
      [=](generate_atom, const TurnRequest&) {
        auto promise = self->make_response_promise<TurnReply>();
        if (fate->chance(0.05)) return promise;  // never answered
        if (fate->chance(0.03)) {
          promise.deliver(TurnReply(tl::unexpect, Error{"prompt_too_long"}));
          return promise;
        }
        const Version begun = fate->published;
        self->delayed_anon_send(self, fate->delay(), step_atom_v);  // time passes
        FinishedTurn turn;
        turn.tokens = {'a', 'b'};
        turn.logp = {-1, -1};
        turn.versions = {begun, begun};
        promise.deliver(TurnReply(turn));
        return promise;
      },
      [](weights_atom, const SnapshotPtr&) {},
      [](good_atom) {},
      [](step_atom) {},
  };
}

ScorerActor::behavior_type toy_scorer(ScorerActor::pointer self, Fate* fate) {
  return {
      [=](score_atom, const ScoreRequest&) {
        auto promise = self->make_response_promise<ScoreReply>();
        if (fate->chance(0.03)) return promise;  // hangs
        if (fate->chance(0.03)) {
          promise.deliver(ScoreReply(tl::unexpect, Error{"not finite"}));
        } else {
          promise.deliver(ScoreReply(Score{0.5, {}, "toy", 1}));
        }
        return promise;
      },
      [](score_atom, std::uint64_t, const ScoreReply&) {},
      [](spec_atom) { return SpecInfo{}; },
      [](spec_atom, const SpecChange&) { return SpecReply{}; },
      [](history_atom) { return nlohmann::json(); },
      [](expire_atom, std::uint64_t) {},
  };
}

// A toy's weights: how often each trajectory was learned from.
using Weights = std::map<std::int64_t, std::int64_t>;

LearnerImagePtr image_of(const Weights& weights) {
  const auto numbers = std::make_shared<std::vector<std::int64_t>>();
  for (const auto& [id, times] : weights) numbers->insert(numbers->end(), {id, times});
  const TensorView view{
      "weights", "I64", {static_cast<std::int64_t>(numbers->size())}, std::as_bytes(std::span(*numbers))};
  return std::make_shared<const LearnerImage>(TensorViews{view}, numbers, std::promise<void>());
}

Weights weights_of(const TensorFile& file) {
  const auto bytes = file.tensors().at(0).bytes;
  std::vector<std::int64_t> numbers(bytes.size() / sizeof(std::int64_t));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  Weights weights;
  for (std::size_t i = 0; i < numbers.size(); i += 2) weights[numbers[i]] = numbers[i + 1];
  return weights;
}

struct ToyPolicy {
  Weights weights;
  Version version = 0;
  std::vector<TrajectoryId> open;
};
struct ToyValue {
  Weights weights;
  std::uint64_t step = 0;
  int warmup_left = 1;
  std::vector<TrajectoryId> open;
};

PolicyLearnerActor::behavior_type toy_policy(PolicyLearnerActor::pointer self, GatekeeperActor gate, Fate* fate,
                                             ToyPolicy* toy) {
  return {
      [=](learn_atom, const ValuedPack& pack) {
        for (const ValuedTrajectory& valued : pack.trajectories) toy->open.push_back(valued.trajectory->id);
        if (!pack.last) return;
        const std::vector<TrajectoryId> learned = std::exchange(toy->open, {});
        if (fate->chance(0.05)) return self->send(gate, skipped_atom_v, std::string("non-finite gradient"));
        for (const TrajectoryId id : learned) ++toy->weights[static_cast<std::int64_t>(id)];
        fate->published = ++toy->version;
        self->send(gate, published_atom_v, toy->version);
      },
      [=](save_atom) {
        return LearnerPart{image_of(toy->weights), toy->version, 0};
      },
      [=](restore_atom, const StoredCheckpointPtr& checkpoint, Version version) {
        toy->weights = weights_of(checkpoint->policy);
        toy->version = fate->published = version;
        toy->open.clear();
        return std::string();
      },
      [](guard_atom, double) {},
  };
}

void pull(ValueLearnerActor::pointer self, GatekeeperActor gate, PolicyLearnerActor policy, ToyValue* toy) {
  self->request(gate, caf::infinite, take_atom_v, 2)
      .then(
          [=](const Taken& taken) {
            ValuedPack pack;
            pack.last = taken.last;
            for (const TrajectoryPtr& trajectory : taken.trajectories) {
              toy->open.push_back(trajectory->id);
              pack.trajectories.push_back({trajectory, {}, 0, 0});
            }
            const bool warming_up = toy->warmup_left > 0;
            if (!warming_up) self->send(policy, learn_atom_v, std::move(pack));
            if (taken.last) {
              for (const TrajectoryId id : std::exchange(toy->open, {})) ++toy->weights[static_cast<std::int64_t>(id)];
              ++toy->step;
              if (warming_up) {
                --toy->warmup_left;
                self->send(gate, skipped_atom_v, std::string("value-only step"));
              }
            }
            pull(self, gate, policy, toy);
          },
          [](const caf::error&) {});
}

ValueLearnerActor::behavior_type toy_value(ValueLearnerActor::pointer self, GatekeeperActor gate,
                                           PolicyLearnerActor policy, ToyValue* toy) {
  return {
      [=](start_atom) { pull(self, gate, policy, toy); },
      [=](save_atom) {
        return LearnerPart{image_of(toy->weights), toy->step, toy->warmup_left};
      },
      [=](restore_atom, const StoredCheckpointPtr& checkpoint) {
        toy->weights = weights_of(checkpoint->value);
        toy->step = checkpoint->row.step;
        toy->warmup_left = checkpoint->manifest.at("warmup_left");
        toy->open.clear();
        return std::string();
      },
  };
}

// One incarnation of the service, from its start to a crash or an end in order.
struct Incarnation : ActorFixture {
  Fate& fate;
  Metrics metrics;
  Settings settings;
  ToyPolicy policy;
  ToyValue value;
  GatekeeperActor gate;
  Version started_as = 0;
  std::uint64_t started_at = 0;

  Incarnation(const std::string& folder, Fate& its_fate) : fate(its_fate) {
    settings.batch = settings.min_batch = batch;
    settings.max_lag = 2;
    settings.sessions.limit = 5;
    settings.environment.deadline_s = 3;
    settings.checkpoint.every_steps = 3;
    settings.checkpoint.keep = 2;
    settings.checkpoint.abandoned = fate.chance(0.5) ? "reject" : "train";
    settings.state.directory = folder;
    auto ledger = Ledger::open(folder);
    REQUIRE_MESSAGE(ledger, ledger.error().message);
    const CheckpointStore store(folder);
    const auto resumed = resume(*ledger, store, 42);
    REQUIRE_MESSAGE(resumed, resumed.error().message);
    started_as = policy.version = fate.published = resumed->version;

    gate = spawn(gatekeeper, std::make_shared<Ledger>(std::move(*ledger)), resumed->version, std::uint64_t{0}, settings,
                 &metrics);
    auto generator = spawn(toy_generator, &fate);
    auto scorer = spawn(toy_scorer, &fate);
    auto policy_actor = spawn(toy_policy, gate, &fate, &policy);
    auto value_actor = spawn(toy_value, gate, policy_actor, &value);
    auto checkpointer_actor = spawn(
        checkpointer, std::make_shared<const CheckpointerSetup>(CheckpointerSetup{
                          gate, value_actor, policy_actor, scorer, store, "toy", resumed->incarnation, 1, &metrics}));
    if (resumed->checkpoint) {
      CHECK(ask<std::string>(checkpointer_actor, restore_atom_v, resumed->checkpoint, resumed->version).empty());
    }
    started_at = value.step;
    auto setup = std::make_shared<SessionSetup>();
    setup->permits = gate;
    setup->generator = generator;
    setup->scorer = scorer;
    setup->tokenizer = std::make_shared<const Tokenizer>(Tokenizer::bytes());
    setup->make_environment = [this] { return std::make_unique<FatefulEnvironment>(fate); };
    setup->settings = settings;
    setup->metrics = &metrics;
    host = spawn(session_host, std::shared_ptr<const SessionSetup>(setup));
    self->send(checkpointer_actor, start_atom_v);
    self->send(value_actor, start_atom_v);
    self->send(host, start_atom_v);
  }
  ~Incarnation() { stop(); }
  SessionHostActor host;

  // Some messages, in an order of chance, with time passing now and then.
  void live(int messages) {
    for (int i = 0; i < messages; ++i) {
      if (!scheduler.has_job() || fate.chance(0.02)) {
        scheduler.advance_time(std::chrono::milliseconds(50 + fate.random() % 1200));
        continue;
      }
      if (scheduler.jobs.size() > 1 && fate.chance(0.3)) {  // another actor goes first
        std::swap(scheduler.jobs.front(), scheduler.jobs[fate.random() % scheduler.jobs.size()]);
      }
      scheduler.run_once();
    }
  }
};

// The service's status while it is in full swing.
GateStatus status_of(Incarnation& service) {
  auto request = service.self->request(service.gate, caf::infinite, status_atom_v);
  while (service.self->mailbox().empty()) service.live(1);
  GateStatus status;
  request.receive([&](const GateStatus& answer) { status = answer; },
                  [](const caf::error& error) { FAIL(caf::to_string(error)); });
  return status;
}

void copy_state(const std::string& from, const std::string& to) {
  std::filesystem::remove_all(to);
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

// The ledger and the toys agree on what was trained, and how often: once.
void check(const std::string& folder, const Weights& policy, const Weights& value) {
  const auto ledger = Ledger::open_read_only(folder);
  REQUIRE(ledger);
  const LedgerCounts counts = ledger->counts();
  CHECK(counts.accepted == counts.trained + counts.queued + counts.rejected);
  Weights trained, learned;
  for (const auto& row : ledger->list(std::nullopt, -1)) {
    const std::int64_t id = row.at("id");
    if (row.at("outcome") == "trained") trained[id] = 1;
    if (row.at("outcome") == "trained" || row.at("outcome") == "skipped") learned[id] = 1;
  }
  CHECK(trained == policy);
  CHECK(learned == value);
}

void simulate(unsigned seed) {
  CAPTURE(seed);
  Fate fate{std::mt19937(seed), 0};
  TemporaryDirectory root;
  std::string state = root.path() + "/state0";
  Version highest = 0;
  for (int incarnation = 0; incarnation < 4; ++incarnation) {
    const std::string crashed = root.path() + "/state" + std::to_string(incarnation + 1);
    {
      Incarnation service(state, fate);
      if (incarnation > 0) CHECK(service.started_as > highest);
      service.live(200 + static_cast<int>(fate.random() % 600));
      if (fate.chance(0.4)) {  // an operator goes back to some checkpoint while everything is in flight
        const GateStatus status = status_of(service);
        if (!status.checkpoint.name.empty()) {
          caf::anon_send(service.gate, rollback_atom_v, Version{status.checkpoint.policy_version});
        }
        service.live(300);
      }
      highest = std::max({highest, fate.published, service.policy.version});
      copy_state(state, crashed);  // what a disk would hold if the process were killed now
    }
    if (fate.chance(0.3)) {  // the newest checkpoint is torn: an older one, or none, is taken
      std::vector<CheckpointRow> rows;
      if (auto ledger = Ledger::open(crashed)) rows = ledger->checkpoints();
      if (rows.size() == 2) {
        std::filesystem::resize_file(crashed + "/checkpoints/" + rows[0].name + "/value.safetensors", 10);
      }
    }
    state = crashed;
  }
  // The last incarnation ends in order, and then everything must add up.
  Incarnation service(state, fate);
  service.live(300);
  auto drained = service.self->request(service.gate, caf::infinite, drain_atom_v);
  for (int i = 0; i < 200; ++i) {
    service.run();
    service.advance(std::chrono::milliseconds(500));
  }
  bool in_order = false;
  drained.receive([&](bool saved) { in_order = saved; }, [](const caf::error& error) { FAIL(caf::to_string(error)); });
  CHECK(in_order);
  const GateStatus status = service.ask<GateStatus>(service.gate, status_atom_v);
  CHECK(status.running == 0);
  CHECK(status.counts.accepted == status.counts.trained + status.counts.queued + status.counts.rejected);
  check(state, service.policy.weights, service.value.weights);
}

}  // namespace

TEST_CASE(
    "seeded schedules with faults: nothing accepted is lost, each trajectory is trained once, permits come back") {
  const char* wanted = std::getenv("MILLRACE_SEEDS");  // FIRST or FIRST-LAST
  unsigned first = 1, last = 40;
  if (wanted) {
    first = last = static_cast<unsigned>(std::strtoul(wanted, nullptr, 10));
    if (const char* dash = std::strchr(wanted, '-')) last = static_cast<unsigned>(std::strtoul(dash + 1, nullptr, 10));
  }
  for (unsigned seed = first; seed <= last; ++seed) simulate(seed);
}
