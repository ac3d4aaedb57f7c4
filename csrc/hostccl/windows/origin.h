// The origin's side of windows over TCP: what this rank asks of the windows of ranks whose memory it cannot map. A connection for
// each of them, made at first use, which the calling threads move on themselves.
//
// Threads: any. Calls for one peer take turns, but for the time that a lock is waited for. In a forked child it is dead.
// Must not know: windows of this rank, what a communicator is.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/gate.h"
#include "hostccl/net/endpoint.h"
#include "hostccl/windows/channel.h"
#include "hostccl/windows/reach.h"

namespace hostccl {

struct WindowOriginOptions {
  std::shared_ptr<net::Endpoint> endpoint;
  net::Bytes16 topic;
  net::Bytes16 key;
  int rank = 0;
  std::vector<net::Address> addresses;  // by rank; that of a rank that is never asked may be none
  // Why to stop: the peer has died, the communicator was cancelled, the user interrupts. Asked every few milliseconds by whoever
  // waits, by several threads at once.
  std::function<pycomms::Status(int peer)> trouble;
};

class WindowOrigin final : public RemoteWindows {
 public:
  explicit WindowOrigin(WindowOriginOptions options);
  ~WindowOrigin() override = default;

  // Calls end with kInvalidState from now on. False: some have not by the deadline.
  bool stop(pycomms::Deadline deadline);

  pycomms::Status put(int peer, uint32_t window, std::span<const WindowPiece> pieces, const std::byte* source,
                      const WindowSignal* signal, pycomms::Deadline deadline) override;
  pycomms::Status get(int peer, uint32_t window, std::span<const WindowPiece> pieces, std::byte* destination,
                      pycomms::Deadline deadline) override;
  pycomms::Status update(int peer, uint32_t window, std::span<const WindowPiece> pieces, DataType type, WindowOp op,
                         const std::byte* operands, std::byte* old, pycomms::Deadline deadline) override;
  pycomms::Status compare_swap(int peer, uint32_t window, uint64_t offset, DataType type, const void* expected,
                               const void* desired, void* old, pycomms::Deadline deadline) override;
  pycomms::Status signal(int peer, uint32_t window, const WindowSignal& signal, pycomms::Deadline deadline) override;
  pycomms::Status flush(int peer, pycomms::Deadline deadline) override;
  pycomms::Status lock(int peer, uint32_t window, bool shared, int* broken, pycomms::Deadline deadline) override;
  pycomms::Status unlock(int peer, uint32_t window, bool shared, pycomms::Deadline deadline) override;
  pycomms::Status tell(int peer, uint32_t window, WindowState state, pycomms::Deadline deadline) override;

 private:
  // What a call is made of.
  struct Asked {
    WindowRequest head;
    std::span<const WindowPiece> pieces = {};
    const std::byte* payload = nullptr;
    uint64_t factor = 0;  // bytes of the payload for a byte of a piece
    std::byte* destination = nullptr;
    bool reports_earlier_errors = false;  // also those that come meanwhile
  };
  pycomms::Status ask(int peer, const Asked& asked, pycomms::Deadline deadline);
  pycomms::Status wait_for_lock(WindowChannel& channel, uint64_t number, int* broken, pycomms::Deadline deadline);
  pycomms::Status check(int peer) const;
  pycomms::Status trouble_with(int peer) const;

  const WindowOriginOptions options_;
  pycomms::Gate gate_;
  std::vector<std::unique_ptr<WindowChannel>> channels_;  // by rank
};

}  // namespace hostccl
