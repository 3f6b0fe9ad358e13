#include "models/collective.hpp"

#include <bit>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>
#include <c10/util/Flags.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "models/compute.hpp"

C10_DECLARE_int(caffe2_log_level);

namespace millrace {

namespace {

std::chrono::milliseconds timeout_of(const ReplicaSettings& settings) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(settings.timeout_s * 1000));
}

// c10's messages go on with a stack trace.
std::string first_line(const std::exception& error) {
  const std::string what = error.what();
  return what.substr(0, what.find('\n'));
}

using Addresses = c10::intrusive_ptr<c10d::Store>;

c10::intrusive_ptr<c10d::Backend> gloo(const Addresses& addresses, const ReplicaSettings& settings) {
  using c10d::ProcessGroupGloo;
  auto options = ProcessGroupGloo::Options::create(timeout_of(settings));
  options->devices.push_back(settings.interface.empty()
                                 ? ProcessGroupGloo::createDefaultDevice()
                                 : ProcessGroupGloo::createDeviceForInterface(settings.interface));
  return c10::make_intrusive<ProcessGroupGloo>(addresses, settings.rank, settings.count, options);
}

#ifdef USE_C10D_NCCL
c10::intrusive_ptr<c10d::Backend> nccl(const Addresses& addresses, const ReplicaSettings& settings) {
  ::setenv("TORCH_NCCL_BLOCKING_WAIT", "1", 0);  // a wait that is over throws, the watchdog does not abort the program
  if (!settings.interface.empty()) ::setenv("NCCL_SOCKET_IFNAME", settings.interface.c_str(), 0);
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout_of(settings);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(addresses, settings.rank, settings.count, options);
}
#else
c10::intrusive_ptr<c10d::Backend> nccl(const Addresses&, const ReplicaSettings&) {
  throw std::logic_error("a program without CUDA has no NCCL");
}
#endif

}  // namespace

struct Collective::Group {
  c10::intrusive_ptr<c10d::Backend> backend;
  at::Device device;
};

struct Replicas::Store {
  c10::intrusive_ptr<c10d::TCPStore> tcp;
};

Collective::Collective(std::unique_ptr<Group> group, const ReplicaSettings& settings)
    : group_(std::move(group)), settings_(settings) {}

Collective::~Collective() = default;

void Collective::sum(const std::vector<at::Tensor>& tensors) {
  if (on_wait_) on_wait_(true);
  try {
    std::vector<c10::intrusive_ptr<c10d::Work>> under_way;
    for (const at::Tensor& tensor : tensors) {
      std::vector<at::Tensor> one{tensor};
      under_way.push_back(group_->backend->allreduce(one, {}));
    }
    for (const auto& work : under_way) work->wait();
  } catch (const std::exception& error) {
    throw std::runtime_error("another replica has gone: " + first_line(error));
  }
  if (on_wait_) on_wait_(false);
}

std::vector<double> Collective::sum(std::vector<at::Tensor> tensors, const std::vector<double>& numbers) {
  tensors.push_back(at::tensor(numbers, at::kDouble).to(group_->device));
  sum(tensors);
  const at::Tensor beside = tensors.back().cpu();
  const auto* first = beside.const_data_ptr<double>();
  return {first, first + numbers.size()};
}

std::vector<std::int64_t> Collective::gather(std::int64_t number) {
  const at::Tensor there = at::zeros({settings_.count}, at::device(group_->device).dtype(at::kLong));
  there[settings_.rank] = number;
  sum({there});
  const at::Tensor all = there.cpu();
  const auto* first = all.const_data_ptr<std::int64_t>();
  return {first, first + settings_.count};
}

void Collective::check_equal(double number) {
  const auto own = std::bit_cast<std::int64_t>(number);
  for (const std::int64_t other : gather(own)) {
    if (other == own) continue;
    throw std::runtime_error(
        "the replicas have computed different numbers from the same gradients: they need machines of "
        "one type and the same threads");
  }
}

Replicas::Replicas(std::unique_ptr<Store> store, const ReplicaSettings& settings)
    : store_(std::move(store)), settings_(settings) {}
Replicas::Replicas(Replicas&&) noexcept = default;
Replicas::~Replicas() = default;

expected<Replicas> Replicas::join(const ReplicaSettings& settings) {
  FLAGS_caffe2_log_level = 3;  // only what is fatal: what fails is an error of ours, c10 would print its stack, too
  const std::size_t colon = settings.address.rfind(':');
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(settings.address.substr(colon + 1)));
  options.isServer = settings.rank == 0;
  options.numWorkers = static_cast<std::size_t>(settings.count);
  options.timeout = timeout_of(settings);
  try {
    auto store =
        std::make_unique<Store>(Store{c10::make_intrusive<c10d::TCPStore>(settings.address.substr(0, colon), options)});
    return Replicas(std::move(store), settings);
  } catch (const std::exception& error) {
    return fail("replicas.address " + settings.address + ": the " + std::to_string(settings.count) +
                " replicas have not come together: " + first_line(error));
  }
}

expected<std::shared_ptr<Collective>> Replicas::open(const std::string& name, const std::string& device_name) const {
  const at::Device device = device_of(device_name);
  try {
    const auto addresses = c10::make_intrusive<c10d::PrefixStore>(name, store_->tcp);
    auto backend = device.is_cpu() ? gloo(addresses, settings_) : nccl(addresses, settings_);
    auto group = std::make_unique<Collective::Group>(Collective::Group{std::move(backend), device});
    return std::make_shared<Collective>(std::move(group), settings_);
  } catch (const std::exception& error) {
    return fail("replicas: no way to the others' " + name + ": " + first_line(error));
  }
}

}  // namespace millrace
