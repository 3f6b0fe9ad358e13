#include "models/collective.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tests/models/learner_fixture.hpp"

namespace millrace {
namespace {

using namespace testing;

// A port that nobody listens at.
std::string free_address() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  REQUIRE(::bind(socket, reinterpret_cast<sockaddr*>(&any), size) == 0);
  REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  ::close(socket);
  return "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
}

ReplicaSettings replica(int rank, int count, const std::string& address) {
  ReplicaSettings settings;
  settings.count = count;
  settings.rank = rank;
  settings.address = address;
  settings.interface = "lo";
  settings.timeout_s = 20;
  return settings;
}

// Each replica on a thread of its own. Returns what they threw, by rank; empty = nothing.
std::vector<std::string> together(int count, const std::function<void(int rank, std::shared_ptr<Collective>)>& work) {
  const std::string address = free_address();
  std::vector<std::string> thrown(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        use_threads(1);
        const auto replicas = Replicas::join(replica(rank, count, address));
        if (!replicas) throw std::runtime_error(replicas.error().message);
        auto channel = replicas->open("test");
        if (!channel) throw std::runtime_error(channel.error().message);
        work(rank, std::move(*channel));
      } catch (const std::exception& error) {
        thrown[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return thrown;
}

Batch part_of(const Batch& batch, std::size_t begin, std::size_t end) {
  const auto from = static_cast<std::ptrdiff_t>(begin), to = static_cast<std::ptrdiff_t>(end);
  return {{batch.sequences.begin() + from, batch.sequences.begin() + to},
          {batch.advantages.begin() + from, batch.advantages.begin() + to}};
}

TEST_CASE("sums are everybody's, with the same bits, and numbers come by rank") {
  std::vector<std::vector<float>> sums(3);
  std::vector<std::vector<double>> numbers(3);
  std::vector<std::vector<std::int64_t>> gathered(3);
  int waits = 0;
  const auto thrown = together(3, [&](int rank, std::shared_ptr<Collective> channel) {
    const auto self = static_cast<std::size_t>(rank);
    if (rank == 0) channel->on_wait([&](bool waiting) { waits += waiting ? 1 : 100; });
    const at::Tensor large = at::full({1000, 7}, 0.1f * static_cast<float>(rank + 1)), small = at::full({1}, rank);
    numbers[self] = channel->sum({large, small}, {1.5, double(rank)});
    sums[self] = flat({large, small.to(at::kFloat)});
    gathered[self] = channel->gather(10 * rank);
    channel->check_equal(0.1);
  });
  CHECK(thrown == std::vector<std::string>(3));
  CHECK(sums[0].front() == doctest::Approx(0.6));
  CHECK(sums[0].back() == 3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(sums[rank] == sums[0]);
    CHECK(numbers[rank] == std::vector<double>{4.5, 3});
    CHECK(gathered[rank] == std::vector<std::int64_t>{0, 10, 20});
  }
  CHECK(waits == 303);
}

TEST_CASE("B15: what replicas have learned together is what one learns of everything") {
  const Model model = small_model();
  const Batch batch = random_batch(9, 6, 41);
  PolicyLearner alone(model, policy_in_float32(), band);
  feed(alone, batch, 9);
  const PolicyStep whole = alone.step(1);
  for (const std::size_t first : {std::size_t{4}, std::size_t{0}}) {  // also when one has nothing this time
    CAPTURE(first);
    std::vector<PolicyStep> steps(2);
    const auto thrown = together(2, [&](int rank, std::shared_ptr<Collective> channel) {
      PolicyLearner learner(model, policy_in_float32(), band, std::move(channel));
      feed(learner, rank == 0 ? part_of(batch, 0, first) : part_of(batch, first, 9), 3);
      steps[static_cast<std::size_t>(rank)] = learner.step(1);
    });
    CHECK(thrown == std::vector<std::string>(2));
    REQUIRE(steps[0].weights);
    REQUIRE(steps[1].weights);
    CHECK(flat(*steps[0].weights) == flat(*steps[1].weights));  // bit for bit
    CHECK(steps[0].gradient_norm == doctest::Approx(whole.gradient_norm).epsilon(1e-5));
    CHECK(relative_distance(flat(*steps[0].weights), flat(*whole.weights)) < 1e-5);
    CHECK(steps[0].sums.tokens + steps[1].sums.tokens == whole.sums.tokens);
  }
}

TEST_CASE("replicas' critics learn together, in both passes, from one scale of advantages") {
  const Model model = small_model();
  const Sequences all = trajectories(8, 43);
  const auto state_of = [](ValueLearner& learner) {
    std::vector<std::byte> bytes;
    const LearnerImagePtr image = learner.image();
    for (const TensorView& tensor : image->tensors()) {
      if (tensor.name.starts_with("explained.") || tensor.name == "reward_levels") continue;  // of what each has seen
      bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
    }
    return bytes;
  };
  ValueLearner alone(model, critic_in_float32(2), Baseline{});
  feed(alone, all, 8);
  const ValueStep whole = alone.step();
  std::vector<std::vector<std::byte>> learned(2);
  std::vector<ValueStep> steps(2);
  const auto thrown = together(2, [&](int rank, std::shared_ptr<Collective> channel) {
    ValueLearner learner(model, critic_in_float32(2), Baseline{}, std::move(channel));
    feed(learner, rank == 0 ? Sequences(all.begin(), all.begin() + 3) : Sequences(all.begin() + 3, all.end()), 2);
    steps[static_cast<std::size_t>(rank)] = learner.step();
    learned[static_cast<std::size_t>(rank)] = state_of(learner);
  });
  CHECK(thrown == std::vector<std::string>(2));
  CHECK_FALSE(learned[0].empty());
  CHECK((learned[0] == learned[1]));  // bit for bit
  CHECK(steps[0].loss == doctest::Approx(whole.loss).epsilon(1e-5));
  CHECK(steps[0].advantage_rms == doctest::Approx(whole.advantage_rms).epsilon(1e-5));
  CHECK(steps[1].gradient_norm == doctest::Approx(whole.gradient_norm).epsilon(1e-4));
}

TEST_CASE("one that has gone, one that computes something else, and nobody there at all") {
  const auto gone = together(2, [](int rank, std::shared_ptr<Collective> channel) {
    channel->gather(1);
    if (rank == 0) channel->gather(2);
  });
  CHECK(gone[0].find("another replica has gone") == 0);
  CHECK(gone[1].empty());

  const auto unlike = together(2, [](int rank, std::shared_ptr<Collective> channel) { channel->check_equal(rank); });
  CHECK(unlike[0].find("different numbers from the same gradients") != std::string::npos);
  CHECK(unlike[1] == unlike[0]);

  const std::string address = free_address();
  for (const int rank : {0, 1}) {
    ReplicaSettings settings = replica(rank, 2, address);
    settings.timeout_s = 1;
    const auto joined = Replicas::join(settings);
    REQUIRE_FALSE(joined);
    CHECK(joined.error().message.find("replicas.address " + address + ": the 2 replicas have not come together") == 0);
  }
}

}  // namespace
}  // namespace millrace
