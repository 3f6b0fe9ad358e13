#include "actors/scorer.hpp"

#include <chrono>
#include <cmath>

#include <caf/send.hpp>

#include "actors/exceptions.hpp"
#include "actors/mailbox.hpp"
#include "actors/timespan.hpp"
#include "runtime/clock.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

using Self = ScorerActor::stateful_pointer<ScorerState>;

constexpr int ramp_stages = 10;

// Puts a spec in force and tells everybody. `again`: a later stage of the same shift, whose recovery is being measured.
expected<void> put(Self self, const ScorerSetup& setup, SpecPtr spec, const SpecChange& change, bool again) {
  auto& preference = *self->state.preference;
  const double now = unix_now();
  const auto done = preference.put(spec, change.who, change.why, change.in_flight, now);
  if (!done) return done;
  const SpecEntry& entry = preference.current();
  setup.metrics->reward_spec(entry.version);
  if (!again) setup.metrics->preference_shift(entry.version);
  log_info("scorer", "reward spec " + spec->name() + " in force as version " + std::to_string(entry.version));
  if (setup.gatekeeper)
    self->send(setup.gatekeeper, spec_atom_v, SpecShift{spec, entry.version, change.in_flight, now});
  if (setup.events) {
    setup.events->publish("shift", {{"version", entry.version},
                                    {"name", spec->name()},
                                    {"who", entry.who},
                                    {"why", entry.why},
                                    {"policy_version", setup.metrics->policy_version()}});
  }
  return {};
}

void wait_for_stage(Self self, double seconds) {
  self->state.plan->next_at = unix_now() + seconds;
  self->delayed_send(self, timespan_of(seconds), expire_atom_v, self->state.plan->number);
}

// The next stage of the plan; the last one puts the spec itself in force.
expected<void> advance(Self self, const ScorerSetup& setup) {
  SpecPlan& plan = *self->state.plan;
  const int stage = plan.stage + 1;
  SpecPtr next = plan.to;
  if (stage < plan.stages) {
    auto blended = blend(*plan.from, *plan.to, static_cast<double>(stage) / plan.stages);
    if (!blended) return tl::unexpected(blended.error());
    next = std::make_shared<const RewardSpec>(std::move(*blended));
  }
  if (const auto done = put(self, setup, next, plan.change, plan.stage > 0); !done) return done;
  plan.stage = stage;
  if (stage == plan.stages) {
    self->state.plan.reset();
  } else {
    wait_for_stage(self, plan.change.ramp_s / (plan.stages - 1));
  }
  return {};
}

SpecReply change_spec(Self self, const ScorerSetup& setup, const SpecChange& change) {
  auto& state = self->state;
  const std::uint64_t version = state.preference->current().version;
  if (change.if_match != 0 && change.if_match != version) {
    return {state.info(),
            "the reward spec is at version " + std::to_string(version) + ", not " + std::to_string(change.if_match) +
                ": read it again",
            SpecFault::conflict};
  }
  const auto spec = state.resolve(change, setup.directory);
  if (!spec) return {state.info(), spec.error().message, SpecFault::invalid};
  // What waits is scored again at once, in the ledger's own commit; a remote scorer takes too long for that.
  const bool asks = (*spec)->remote() || (change.ramp_s > 0 && state.preference->current().spec->remote());
  if (change.in_flight == InFlight::rescore && asks) {
    return {state.info(),
            "\"in_flight\": \"rescore\" cannot ask remote scorers (http, judge): expected keep, finish or expire",
            SpecFault::invalid};
  }
  state.plan = SpecPlan{
      ++state.plans, change, state.preference->current().spec, *spec, 0, change.ramp_s > 0 ? ramp_stages : 1, 0};
  if (change.after_s > 0) {
    wait_for_stage(self, change.after_s);
  } else if (const auto done = advance(self, setup); !done) {
    state.plan.reset();
    return {state.info(), done.error().message, SpecFault::failed};
  }
  return {state.info(), "", {}};
}

ScoreReply under(std::uint64_t version, Score score) {
  score.spec_version = version;
  if (!std::isfinite(score.total)) return fail("reward of spec " + score.spec + " is not finite");
  return score;
}

// Scores under the spec in force: here and now, or by asking somebody else, who answers with the number of the
// question.
void score(Self self, const ScorerSetup& setup, OpenScore open) {
  auto& state = self->state;
  const SpecEntry& entry = state.preference->entry_for(open.request.begun);
  const ScoreRequest& request = open.request;
  if (!entry.spec->remote()) {
    open.promise.deliver(under(entry.version, entry.spec->score(request.answer, request.expected_answer)));
    return;
  }
  const std::uint64_t number = state.next_open++;
  setup.asker->ask(entry.spec, {request.answer, request.expected_answer, request.task},
                   [address = self->address(), number](const ScoreReply& reply) {
                     if (const auto scorer = caf::actor_cast<caf::actor>(address))
                       caf::anon_send(scorer, score_atom_v, number, reply);
                   });
  open.spec_version = entry.version;
  state.open.emplace(number, std::move(open));
}

void answered(Self self, const ScorerSetup& setup, std::uint64_t number, const ScoreReply& reply) {
  auto& state = self->state;
  OpenScore open = std::move(state.open.extract(number).mapped());
  const SpecEntry& now = state.preference->current();
  // After a shift that scores again what is in flight, this is in flight, too.
  if (now.in_flight == InFlight::rescore && now.version != open.spec_version)
    return score(self, setup, std::move(open));
  open.promise.deliver(reply ? under(open.spec_version, *reply) : reply);
}

}  // namespace

const char* ScorerState::name = "scorer";

expected<SpecPtr> ScorerState::resolve(const SpecChange& change, const std::string& directory) const {
  if (change.restore) {
    const std::uint64_t current = preference->current().version;
    const std::uint64_t wanted = *change.restore != 0 ? *change.restore : current - 1;
    const SpecEntry* entry = preference->find(wanted);
    if (!entry) return fail("there was no reward spec of version " + std::to_string(wanted));
    if (wanted == current) return fail("version " + std::to_string(wanted) + " is in force already");
    return entry->spec;
  }
  expected<RewardSpec> spec = change.spec.is_string() ? load_reward_spec(directory, change.spec.get<std::string>())
                                                      : RewardSpec::parse(change.spec);
  if (!spec) return tl::unexpected(spec.error());
  return std::make_shared<const RewardSpec>(std::move(*spec));
}

SpecInfo ScorerState::info() const {
  const SpecEntry& entry = preference->current();
  SpecInfo info{entry.version, entry.spec->name(), entry.spec->document(), {}};
  if (plan) {
    info.pending = {
        {"name", plan->to->name()}, {"next_at", plan->next_at}, {"stage", plan->stage}, {"stages", plan->stages}};
  }
  return info;
}

ScorerActor::behavior_type scorer(Self self, Preference preference, ScorerSetup setup) {
  die_of_exceptions(self, ScorerState::name);
  self->state.preference.emplace(std::move(preference));
  setup.metrics->reward_spec(self->state.preference->current().version);
  return {
      [=](score_atom, const ScoreRequest& request) {
        report_mailbox(self, *setup.metrics);
        auto promise = self->make_response_promise<ScoreReply>();
        score(self, setup, {request, 0, promise});
        return promise;
      },
      [=](score_atom, std::uint64_t number, const ScoreReply& reply) { answered(self, setup, number, reply); },
      [self](spec_atom) { return self->state.info(); },
      [=](spec_atom, const SpecChange& change) { return change_spec(self, setup, change); },
      [self](history_atom) {
        auto entries = nlohmann::json::array();
        for (const SpecEntry& entry : self->state.preference->history()) entries.push_back(to_json(entry));
        return entries;
      },
      [=](expire_atom, std::uint64_t plan) {
        if (!self->state.plan || self->state.plan->number != plan) return;
        if (const auto done = advance(self, setup); !done) {
          log_error("scorer", "the planned shift is given up: " + done.error().message);
          self->state.plan.reset();
        }
      },
  };
}

}  // namespace millrace
