// A window of another rank that cannot be mapped here: what this rank asks of it travels over TCP, and the service of its process
// does it. Implemented by origin.h.
// Any thread; calls for one rank are done there in the order in which they were made here. Must not know: windows of this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "hostccl/hostccl_windows.h"
#include "hostccl/windows/control.h"

namespace hostccl {

// All return when the deadline has passed at the latest (kTimeout). kPeerFailure: the window is closed there, or the connection or
// the process has ended; kInvalidState: this side was stopped; kInvalidArgument: the target refused it; kCancelled: interrupted.
// The message is one sentence that can be shown.
class RemoteWindows {
 public:
  virtual ~RemoteWindows() = default;

  // window: its number on the communicator. The source may be reused when it returns; done there at the latest when a flush
  // has returned.
  virtual pycomms::Status put(int peer, uint32_t window, std::span<const WindowPiece> pieces, const std::byte* source,
                              const WindowSignal* signal, pycomms::Deadline deadline) = 0;
  virtual pycomms::Status get(int peer, uint32_t window, std::span<const WindowPiece> pieces, std::byte* destination,
                              pycomms::Deadline deadline) = 0;
  // Without `old` it need not wait for the answer.
  virtual pycomms::Status update(int peer, uint32_t window, std::span<const WindowPiece> pieces, DataType type,
                                 WindowOp op, const std::byte* operands, std::byte* old,
                                 pycomms::Deadline deadline) = 0;
  virtual pycomms::Status compare_swap(int peer, uint32_t window, uint64_t offset, DataType type, const void* expected,
                                       const void* desired, void* old, pycomms::Deadline deadline) = 0;
  virtual pycomms::Status signal(int peer, uint32_t window, const WindowSignal& signal, pycomms::Deadline deadline) = 0;
  // Everything asked of `peer` before has been done there; of all windows.
  virtual pycomms::Status flush(int peer, pycomms::Deadline deadline) = 0;
  virtual pycomms::Status lock(int peer, uint32_t window, bool shared, int* broken, pycomms::Deadline deadline) = 0;
  virtual pycomms::Status unlock(int peer, uint32_t window, bool shared, pycomms::Deadline deadline) = 0;
  // What has become of this rank's own part of the window. The peer knows it when this returns.
  virtual pycomms::Status tell(int peer, uint32_t window, WindowState state, pycomms::Deadline deadline) = 0;
};

}  // namespace hostccl
