#include "hostccl/windows/network.h"

#include <utility>

#include "hostccl/doors.h"
#include "hostccl/net/siphash.h"

namespace hostccl {
namespace {

constexpr int64_t kTimeToStop = 10 * pycomms::kSecond;

}  // namespace

pycomms::Result<std::unique_ptr<WindowNetwork>> WindowNetwork::start(Means means) {
  auto endpoint = process_endpoint();
  if (!endpoint.is_ok()) return endpoint.status();
  std::unique_ptr<WindowNetwork> network(new WindowNetwork(std::move(means)));
  network->endpoint_ = endpoint.take();
  const Means& m = network->means_;
  auto service = WindowService::start({.endpoint = network->endpoint_,
                                       .topic = net::derive(m.secret, "windows"),
                                       .key = m.secret,
                                       .rank = m.rank,
                                       .nranks = m.nranks,
                                       .find = m.find,
                                       .is_dead = m.is_dead});
  if (!service.is_ok()) return service.status();
  network->service_ = service.take();
  return network;
}

WindowNetwork::~WindowNetwork() { static_cast<void>(stop(pycomms::Deadline::after(kTimeToStop))); }

void WindowNetwork::introduce(std::vector<net::Address> addresses) {
  origin_ = std::make_unique<WindowOrigin>(WindowOriginOptions{.endpoint = endpoint_,
                                                               .topic = net::derive(means_.secret, "windows"),
                                                               .key = means_.secret,
                                                               .rank = means_.rank,
                                                               .addresses = std::move(addresses),
                                                               .trouble = means_.trouble});
}

bool WindowNetwork::stop(pycomms::Deadline deadline) {
  const bool calls_ended = !origin_ || origin_->stop(deadline);
  return (!service_ || service_->stop(deadline)) && calls_ended;
}

}  // namespace hostccl
