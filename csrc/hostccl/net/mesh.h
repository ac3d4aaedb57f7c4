// The links between the ranks of one communicator. A link is made when it is first used, by whichever side needs it first;
// when both begin at the same time the connection that the lower rank dials is kept. A link that has ended stays so.
//
// Threads: any. Completions and the sink are called with no lock held, on threads that call in here and on the
// endpoint's. In a forked child the mesh is dead. Must not know: what messages mean.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "hostccl/net/dial.h"
#include "hostccl/net/endpoint.h"
#include "hostccl/net/link.h"

namespace hostccl::net {

struct MeshOptions {
  Bytes16 topic;
  Bytes16 key;
  int rank = 0;
  std::vector<Address> addresses;  // by rank; that of a rank that is never dialled may be none
  int64_t connect_ns = 30 * pycomms::kSecond;
};

class Mesh {
 public:
  // The endpoint must outlive the mesh; so must the sink.
  static pycomms::Result<std::unique_ptr<Mesh>> make(std::shared_ptr<Endpoint> endpoint, MeshOptions options,
                                                     Sink& sink);
  ~Mesh();  // ends what is left, and the sink hears of it no more
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  int rank() const { return options_.rank; }
  int nranks() const { return static_cast<int>(options_.addresses.size()); }

  // Begins to connect if nobody has. The link lives as long as the mesh; rank is another one than ours.
  Link& link_to(int rank);
  // As it is: null when nobody has begun.
  Link* find_link(int rank) const;

  // Moves all links on. True: something moved.
  bool progress();

  // Sleeps until there is something to do, until ring(), or until the deadline.
  void wait(pycomms::Deadline deadline);
  // Wakes all who are in wait(), or else the next who goes there. From any thread, also of a signal handler.
  void ring() const;

  // Says goodbye to all peers; returns when they have closed, or at the deadline. Nobody is let in any more. By one thread,
  // and not from within a call of the sink or a completion.
  void close(const std::string& reason, pycomms::Deadline deadline);
  // Ends all links now. What holds of Link::abort() then holds of all.
  void abort(const std::string& reason);

 private:
  enum class PeerState : uint8_t {
    kUnused,
    kDialling,
    kAwaited,  // both began to dial, and the peer's connection is the one to keep
    kLinked,   // or it has ended
  };
  struct Peer {
    PeerState state = PeerState::kUnused;
    std::unique_ptr<Link> link;
    std::unique_ptr<Dial> dial;
    int64_t awaited_until_ns = 0;
  };
  // What is to be done to a link once the lock is released.
  struct Step {
    Link* link;
    Descriptor socket;  // attach it
    Address at;
    LinkEnd end;  // or end the link
  };

  Mesh(std::shared_ptr<Endpoint> endpoint, MeshOptions options, Sink& sink, Descriptor epoll, Descriptor bell);
  bool is_foreign() const { return endpoint_->is_foreign(); }
  void on_arrival(Arrival arrival);
  Verdict verdict_on(const Arrival& arrival) const;
  Link& make_link(int rank);
  void set_state(Peer& peer, PeerState to);
  bool advance_dials();
  void advance_dial(int rank, int64_t now, std::vector<Step>& steps);
  void watch_dial(int rank, const Dial& dial);
  void take(std::vector<Step>& steps);
  LinkEnd unreachable(int rank, const std::string& why) const;
  bool progress_ready();
  int64_t wake_at_ns() const;

  const std::shared_ptr<Endpoint> endpoint_;  // shared: with the meshes of other communicators
  const MeshOptions options_;
  Sink& sink_;
  const Descriptor epoll_;
  const Descriptor bell_;  // an eventfd

  std::vector<std::atomic<Link*>> links_;  // by rank; set once
  std::vector<std::atomic<int>> active_;   // ranks that have a link, in the order in which they got it
  std::atomic<size_t> active_count_{0};
  std::atomic<int> pending_{0};  // peers in kDialling or kAwaited
  mutable std::atomic<int> sleepers_{0};

  mutable std::mutex mutex_;
  std::vector<Peer> peers_;  // GUARDED_BY(mutex_), but a link is self-synchronized
  bool is_closing_ = false;  // GUARDED_BY(mutex_)

  Link in_child_;  // stands for all links that a forked child asks for: its sends are refused
  std::unique_ptr<Endpoint::Registration> registration_;  // the last: its handler uses all the others
};

}  // namespace hostccl::net
