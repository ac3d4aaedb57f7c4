// The part of a communicator's windows that goes over TCP: the service of this rank, and its connections to those of the others.
// Any thread. Must not know: mapped memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "hostccl/net/address.h"
#include "hostccl/net/bytes.h"
#include "hostccl/windows/origin.h"
#include "hostccl/windows/service.h"

namespace hostccl {

class WindowNetwork {
 public:
  struct Means {
    net::Bytes16 secret;  // of the communicator
    int rank;
    int nranks;
    std::function<std::shared_ptr<const WindowMemory>(uint32_t window)> find;
    std::function<bool(int rank)> is_dead;
    std::function<pycomms::Status(int peer)> trouble;
  };
  // Serves this rank's windows from now on.
  static pycomms::Result<std::unique_ptr<WindowNetwork>> start(Means means);
  ~WindowNetwork();

  const net::Address& address() const { return endpoint_->address(); }
  // Where the others are, by rank: once, before remote().
  void introduce(std::vector<net::Address> addresses);
  RemoteWindows& remote() { return *origin_; }
  WindowService& service() { return *service_; }
  // Ends calls and connections. False: some had not ended by then.
  bool stop(pycomms::Deadline deadline);

 private:
  explicit WindowNetwork(Means means) : means_(std::move(means)) {}
  const Means means_;
  std::shared_ptr<net::Endpoint> endpoint_;  // shared by the process
  std::unique_ptr<WindowService> service_;
  std::unique_ptr<WindowOrigin> origin_;
};

}  // namespace hostccl
