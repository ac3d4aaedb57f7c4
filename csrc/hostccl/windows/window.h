// A window: this rank's memory, and how it reaches that of the others. Each call decides here whether it goes by loads and
// stores or by way of the peer's service; arguments are checked before anything is done.
//
// Any thread, but for close(). Must not know: NCCL's function names, torch.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "hostccl/shared_buffers.h"
#include "hostccl/windows/memory.h"
#include "hostccl/windows/site.h"

namespace hostccl {

inline constexpr int kMaxSlots = 4096;

class Window {
 public:
  // Collective. *about: whom an error is about.
  static pycomms::Result<std::unique_ptr<Window>> make(std::shared_ptr<WindowSite> site, void* data, size_t bytes,
                                                       const WindowOptions& options, int64_t timeout_ns,
                                                       std::vector<int>* about);
  ~Window();

  int rank() const { return site_->rank(); }
  int nranks() const { return site_->nranks(); }

  pycomms::Status close(bool together, pycomms::Deadline deadline, std::vector<int>* about);
  pycomms::Status attr(int peer, WindowAttr* attr) const;
  pycomms::Status map(int peer, void** data, std::shared_ptr<pycomms::SharedMapping>* hold) const;

  pycomms::Status put(int peer, std::span<const WindowPiece> pieces, const std::byte* source,
                      const WindowSignal* signal, int64_t timeout_ns);
  pycomms::Status get(int peer, std::span<const WindowPiece> pieces, std::byte* destination, int64_t timeout_ns);
  pycomms::Status update(int peer, std::span<const WindowPiece> pieces, DataType type, WindowOp op,
                         const std::byte* operands, std::byte* old, int64_t timeout_ns);
  pycomms::Status compare_swap(int peer, uint64_t offset, DataType type, const void* expected, const void* desired,
                               void* old, int64_t timeout_ns);
  // *about, here and below: whom an error is about, or -1.
  pycomms::Status flush(int peer, int64_t timeout_ns, int* about);

  pycomms::Status signal(int peer, const WindowSignal& signal, int64_t timeout_ns);
  pycomms::Status wait_signal(std::span<const int> peers, bool all_of, int slot, int64_t count, int64_t timeout_ns,
                              size_t* which, int* about);
  pycomms::Status read_signal(int peer, int slot, int64_t* value) const;

  pycomms::Status lock(int peer, bool shared, int64_t timeout_ns, int* broken);
  pycomms::Status unlock(int peer, bool shared, int64_t timeout_ns);

 private:
  // As another rank is seen from here.
  struct Peer {
    WindowMemory memory;  // without a block when it is served: then only sizes are known
    bool is_served = false;
  };
  // A call of a window: as long as it exists the communicator's means may be used.
  class Inside {
   public:
    explicit Inside(const Window& window) : holder_(window.site_->gate()) {}
    explicit operator bool() const { return static_cast<bool>(holder_); }

   private:
    pycomms::GateHolder holder_;
  };

  Window(std::shared_ptr<WindowSite> site, uint32_t number) : site_(std::move(site)), number_(number) {}
  pycomms::Status set_up(void* data, size_t bytes, const WindowOptions& options, int64_t timeout_ns,
                         std::vector<int>* about);
  pycomms::Status make_block(void* data, size_t bytes, const SharedLocation& where, const WindowOptions& options);
  bool map_peer(int rank, const SharedLocation& block, const SharedLocation& data, WindowMemory* memory) const;
  pycomms::Status map_peers(const std::vector<Report>& reports, std::vector<int>* about);
  const Peer& peer(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  pycomms::Status check_rank(int peer) const;
  // Ok: the call may go on, and the peer exists and is well.
  pycomms::Status check(const Inside& inside, int peer) const;
  bool has_closed(int peer) const;
  pycomms::Status fence(int peer, int64_t timeout_ns, int* about);
  // Until all are through with the window.
  pycomms::Status meet_to_close(pycomms::Deadline deadline, std::vector<int>* about);
  pycomms::Status order_of_closing(const std::vector<int>& missing, std::vector<int>* about) const;
  std::vector<int> missing_to_close() const;
  pycomms::Status tell_all(WindowState state, pycomms::Deadline deadline) const;
  bool take_signal(int source, int slot, int64_t count);
  std::string words_for_missing_signals(std::span<const int> peers, const std::vector<bool>& taken, int slot,
                                        int64_t count, int64_t waited_ns) const;

  const std::shared_ptr<WindowSite> site_;  // shared with the communicator and its other windows
  std::atomic<uint32_t> fence_{0};
  std::unique_ptr<std::atomic<bool>[]> holds_alone_;  // by rank, whose lock this rank holds

  // Constant once it is made.
  uint32_t number_;                           // the same on all ranks
  std::shared_ptr<const WindowMemory> mine_;  // shared with the service
  pycomms::Fd block_fd_;                      // until all have mapped it
  std::vector<Peer> peers_;
  bool is_made_ = false;  // on all ranks, so that others know it by its number
};

}  // namespace hostccl
