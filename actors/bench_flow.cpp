#include "actors/bench_flow.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include "actors/gatekeeper.hpp"
#include "actors/lanes.hpp"
#include "actors/scorer.hpp"
#include "actors/session_host.hpp"
#include "actors/spawn.hpp"
#include "runtime/episode.hpp"

namespace millrace {

namespace {

constexpr std::size_t answer_tokens = 32;  // with the prompt about 1 KB: 21 bytes a token, and the texts

// What the actors of this file share.
struct Flow {
  std::atomic<std::uint64_t> learned{0};  // trajectories
  std::atomic<Version> published{0};
};

void must(const expected<void>& done) {
  if (!done) throw std::logic_error("bench: " + done.error().message);
}

FinishedTurn free_turn(Version version) {
  FinishedTurn turn;
  turn.tokens.assign(answer_tokens, 'a');
  turn.logp.assign(answer_tokens, -1.0f);
  turn.versions.assign(answer_tokens, version);
  turn.last_weights = version;
  return turn;
}

GeneratorActor::behavior_type free_generator(GeneratorActor::pointer, const Flow* flow) {
  return {
      [=](generate_atom, const TurnRequest&) { return TurnReply(free_turn(flow->published)); },
      [](weights_atom, const SnapshotPtr&) {},
      [](good_atom) {},
      [](step_atom) {},
  };
}

using FreePolicy = caf::typed_actor<caf::reacts_to<learn_atom, ValuedPack>>;
using FreeValue = caf::typed_actor<caf::reacts_to<start_atom>>;

FreePolicy::behavior_type free_policy(FreePolicy::pointer self, GatekeeperActor gatekeeper, Flow* flow) {
  return {[=](learn_atom, const ValuedPack& pack) {
    flow->learned += pack.trajectories.size();
    if (pack.last) self->send(gatekeeper, published_atom_v, ++flow->published);
  }};
}

void pull(FreeValue::pointer self, const GatekeeperActor& gatekeeper, const FreePolicy& policy) {
  self->request(gatekeeper, caf::infinite, take_atom_v, 1).then([=](const Taken& taken) {
    ValuedPack pack;
    pack.last = taken.last;
    for (const TrajectoryPtr& trajectory : taken.trajectories) {
      pack.trajectories.push_back({trajectory, std::vector<float>(trajectory->sequence.tokens.size()), 0, 0});
    }
    self->send(policy, learn_atom_v, std::move(pack));
    pull(self, gatekeeper, policy);
  });
}

FreeValue::behavior_type free_value(FreeValue::pointer self, GatekeeperActor gatekeeper, FreePolicy policy) {
  return {[=](start_atom) { pull(self, gatekeeper, policy); }};
}

template <class... Actors>
void end_all(const Actors&... actors) {
  (caf::anon_send_exit(actors, caf::exit_reason::user_shutdown), ...);
}

// A second's worth of trajectories, the median of three windows.
double rate_of(const std::atomic<std::uint64_t>& count, double window_s) {
  const std::chrono::duration<double> window(window_s);
  std::this_thread::sleep_for(window / 4);  // until everything is in motion
  std::array<double, 3> rates{};
  for (double& rate : rates) {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t before = count;
    std::this_thread::sleep_for(window);
    rate = static_cast<double>(count - before) /
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::sort(rates.begin(), rates.end());
  return rates[1];
}

// What trajectories are made of here.
struct Toy {
  explicit Toy(const FlowOptions& options) {
    settings.batch = settings.min_batch = settings.sessions.limit = options.sessions;
    settings.environment.name = "letters";
  }
  Settings settings;
  std::shared_ptr<const Tokenizer> tokenizer = std::make_shared<const Tokenizer>(Tokenizer::bytes());
  SpecPtr spec = std::make_shared<const RewardSpec>(
      RewardSpec::parse(
          {{"name", "vowels"},
           {"parts", {{{"name", "vowels"}, {"kind", "letter_share"}, {"weight", 1}, {"letters", "aeiou"}}}}})
          .value());
};

double service_rate(const FlowOptions& options, Ledger ledger) {
  Flow flow;
  Metrics metrics;
  const Toy toy(options);
  const Settings& settings = toy.settings;
  const auto environments = make_environment_factory(settings.environment);

  caf::actor_system_config config;
  caf::actor_system system(configure(config));
  const auto gate = system.spawn(gatekeeper, std::make_shared<Ledger>(std::move(ledger)), Version{0}, std::uint64_t{0},
                                 settings, &metrics);
  const auto generator = system.spawn(free_generator, &flow);
  const auto scores = system.spawn(scorer, Preference(toy.spec), ScorerSetup{"", &metrics, gate, nullptr, nullptr});
  const auto policy = system.spawn(free_policy, gate, &flow);
  const auto value = system.spawn(free_value, gate, policy);
  put_in_second_lane(system, Asked::gatekeeper, gate);
  put_in_second_lane(system, Asked::scorer, scores);
  put_in_second_lane(system, Asked::generator, generator);
  put_in_second_lane(system, Asked::value_learner, value);
  put_in_second_lane(system, Asked::policy_learner, policy);
  const auto host = system.spawn(
      session_host, std::make_shared<const SessionSetup>(SessionSetup{gate, generator, scores, toy.tokenizer,
                                                                      environments.value(), settings, &metrics}));
  caf::anon_send(value, start_atom_v);
  caf::anon_send(host, start_atom_v);
  const double rate = rate_of(flow.learned, options.window_s);
  end_all(host, value, policy, scores, generator, gate);
  return rate;
}

// The same work one after another on one thread, without a message: what one core would do if actors cost nothing.
double unsent_rate(const FlowOptions& options) {
  Metrics metrics;
  const Toy toy(options);
  const Settings& settings = toy.settings;
  const auto make_environment = make_environment_factory(settings.environment).value();
  Gatekeeper gate(settings, 0, Ledger::forgetful(), metrics);
  const auto session = [&](TrajectoryId id) {
    const auto environment = make_environment();
    Episode episode(*toy.tokenizer, settings.environment, settings.model.max_context);
    must(episode.begin(environment->reset(id).value()));
    const std::string answer = episode.add_turn(free_turn(gate.learner_version()), Sampling{});
    must(episode.observe(environment->step(answer).value()));
    Score score = toy.spec->score(episode.answer(), episode.expected_answer());
    Trajectory trajectory = episode.finish(Ending::terminated);
    trajectory.id = id;
    trajectory.score = std::move(score);
    trajectory.sequence.rewards.back() += static_cast<float>(trajectory.score.total);
    gate.submit(std::move(trajectory), Outcome::queued, "");
  };
  std::atomic<std::uint64_t> learned{0};
  std::atomic<bool> over = false;
  std::thread core([&] {
    while (!over) {
      std::vector<TrajectoryId> running;
      while (const TrajectoryId id = gate.acquire()) running.push_back(id);
      for (const TrajectoryId id : running) session(id);
      for (bool last = false; !last;) {
        const Taken taken = gate.take(1, 0);
        for (const TrajectoryPtr& trajectory : taken.trajectories) {
          const std::vector<float> advantages(trajectory->sequence.tokens.size());
          ++learned;
        }
        last = taken.last;
      }
      gate.published(gate.learner_version() + 1);
    }
  });
  const double rate = rate_of(learned, options.window_s);
  over = true;
  core.join();
  return rate;
}

// What bare hops share: where they begin, and how many trajectories came to their end.
using HopActor = caf::typed_actor<caf::reacts_to<submit_atom, FinishedSession>>;
struct Hops {
  FreeValue source;
  std::atomic<std::uint64_t> arrived{0};
};

FreeValue::behavior_type hop_source(FreeValue::pointer self, HopActor next) {
  return {[=](start_atom) {
    constexpr std::size_t tokens = answer_tokens + 16;
    FinishedSession session;
    session.trajectory.answer.assign(answer_tokens, 'a');
    session.trajectory.sequence.tokens.assign(tokens, 'a');
    session.trajectory.sequence.mask.assign(tokens, 1);
    session.trajectory.sequence.behaviour.assign(tokens, -1.0f);
    session.trajectory.sequence.rewards.assign(tokens, 0.0f);
    session.trajectory.versions.assign(tokens, 1);
    self->send(next, submit_atom_v, std::move(session));
  }};
}

HopActor::behavior_type hop(HopActor::pointer self, HopActor next) {
  return {[=](submit_atom, FinishedSession& session) { self->send(next, submit_atom_v, std::move(session)); }};
}

HopActor::behavior_type hop_end(HopActor::pointer self, Hops* hops) {
  return {[=](submit_atom, FinishedSession&) {
    ++hops->arrived;
    self->send(hops->source, start_atom_v);
  }};
}

// Three hops, as many trajectories under way as there would be sessions.
double bare_rate(const FlowOptions& options) {
  Hops hops;
  caf::actor_system_config config;
  caf::actor_system system(configure(config));
  const auto last = system.spawn(hop_end, &hops);
  const auto middle = system.spawn(hop, last);
  hops.source = system.spawn(hop_source, middle);
  for (int session = 0; session < options.sessions; ++session) caf::anon_send(hops.source, start_atom_v);
  const double rate = rate_of(hops.arrived, options.window_s);
  end_all(hops.source, middle, last);
  system.await_all_actors_done();  // the last one still sends to the source
  hops.source = nullptr;
  return rate;
}

// A durable ledger, in a folder that is gone afterwards.
expected<double> durable_rate(const FlowOptions& options) {
  const auto folder = std::filesystem::temp_directory_path() / ("millrace-bench-" + std::to_string(::getpid()));
  double rate = 0;
  {
    auto ledger = Ledger::open(folder.string());
    if (!ledger) return tl::unexpected(ledger.error());
    rate = service_rate(options, std::move(*ledger));
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return rate;
}

}  // namespace

expected<std::vector<Figure>> bench_flow(const FlowOptions& options) {
  const double bare = bare_rate(options), unsent = unsent_rate(options);
  const double rate = service_rate(options, Ledger::forgetful());
  const expected<double> durable = durable_rate(options);
  if (!durable) return tl::unexpected(durable.error());
  return std::vector<Figure>{{"flow", rate, "trajectories/s", rate / unsent},
                             {"flow_durable", *durable, "trajectories/s", *durable / unsent},
                             {"without_messages", unsent, "trajectories/s"},
                             {"bare_hops", bare, "trajectories/s"}};
}

}  // namespace millrace
