// One authenticated connection to a peer, which carries messages both ways. It exists before it is connected: what is sent
// meanwhile waits.
//
// Threads: any. One at a time receives, the others do not wait for it; sending takes a lock for one system call. Nothing
// blocks. In a forked child it is dead. Must not know: how the connection came about.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "hostccl/net/address.h"
#include "hostccl/net/descriptor.h"
#include "hostccl/net/inbox.h"
#include "hostccl/net/outbox.h"
#include "hostccl/net/sink.h"

namespace hostccl::net {

// An epoll instance that learns of the link's connection, under this name.
struct Watcher {
  int epoll = -1;  // none
  uint64_t name = 0;
};

// Whether a message goes at once, or with the next one that does. Whoever says later calls progress() soon.
enum class Push : uint8_t { kNow, kLater };

class Link {
 public:
  static constexpr size_t kCopyBytes = 64 << 10;  // of a message that nobody waits for

  Link(int peer, Sink& sink);
  ~Link();  // ends it without telling the sink, if it has not ended
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int peer() const { return peer_; }
  // The connection; what was sent before now goes. False: the link has ended meanwhile.
  bool attach(Descriptor socket, const Address& at, Watcher watcher);

  // message.bytes is set here. With a completion the body stays in use until that was called, which may be before this
  // returns; without one it is free when this returns, and at most kCopyBytes. Order is kept within a lane. An error (the
  // link has ended, the lane is full, a size is out of bounds) means that nothing was sent and nobody will be told.
  pycomms::Status send(Lane lane, Message message, const Payload& payload, Completion done = {},
                       Push push = Push::kNow);
  // Copies what is still to be sent: from here on the bodies' memory is free, whatever their completions say.
  void keep_bodies();
  // Tells the peer that we live.
  pycomms::Status beat();

  // Sends and receives what can be, now, one burst at most. True when anything moved.
  bool progress();

  // Says goodbye once all is sent, then waits for the peer to close: progress() goes on being needed until has_ended().
  void start_close(const std::string& reason);
  // Ends it now, and tells the sink unless it has been told. When this returns no memory of the user's is touched any more;
  // within a call of a sink, where nobody may wait, it returns at once and that holds when has_ended().
  void abort(const LinkEnd& end);

  bool is_connected() const { return state_.load(std::memory_order_acquire) == State::kOpen; }
  bool has_ended() const { return state_.load(std::memory_order_acquire) == State::kEnded; }
  // Something waits for the kernel, or the connection, to take it.
  bool has_output() const { return has_output_.load(std::memory_order_acquire); }
  // Something was to go later, and nothing has gone since.
  bool has_unpushed() const { return has_unpushed_.load(std::memory_order_acquire); }
  // When anything came in last; 0: never.
  int64_t last_heard_ns() const { return last_heard_ns_.load(std::memory_order_relaxed); }
  std::string name() const;  // "rank 3 at 10.0.0.3:4000"

 private:
  enum class State : uint8_t { kConnecting, kOpen, kClosing, kEnded };

  bool is_foreign() const;
  bool take_socket(Descriptor socket, const Address& at, Watcher watcher);
  bool flush();
  bool flush_once(bool& more, bool comes_again);
  void watch_for_output(bool on);
  bool try_receiving() { return !receiving_.exchange(true, std::memory_order_seq_cst); }
  void stop_receiving();
  bool receive();
  void look_for_end(Inbox::Outcome outcome, int error);
  LinkEnd lost(const std::string& how) const;
  void finish(const LinkEnd& end);
  std::vector<Completion> drop_connection();

  const int peer_;
  Sink& sink_;
  const uint32_t fork_generation_;

  std::atomic<State> state_{State::kConnecting};
  std::atomic<bool> has_output_{false};
  std::atomic<bool> has_unpushed_{false};
  std::atomic<int64_t> last_heard_ns_{0};

  // The one who holds it may receive and, with mutex_ too, replace the socket.
  std::atomic<bool> receiving_{false};
  std::atomic<bool> must_end_{false};  // abort() was called: the receiver has to see to it
  Inbox inbox_;                        // the receiver's

  mutable std::mutex mutex_;
  Outbox outbox_;                // GUARDED_BY(mutex_)
  Descriptor socket_;            // written with both; read with either
  Address at_;                   // GUARDED_BY(mutex_)
  Watcher watcher_;              // GUARDED_BY(mutex_)
  bool watches_output_ = false;  // GUARDED_BY(mutex_)
  bool is_blocked_ = false;      // GUARDED_BY(mutex_): the kernel took no more when last asked
  int send_error_ = 0;           // GUARDED_BY(mutex_): an errno; what has come is still read
  LinkEnd asked_end_;            // GUARDED_BY(mutex_): of the first abort()
};

}  // namespace hostccl::net
