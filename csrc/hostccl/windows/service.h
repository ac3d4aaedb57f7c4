// The target's side of windows over TCP: serves the memory of this rank to ranks that cannot map it, whatever this rank's own
// threads do. One object and one thread a communicator.
//
// Threads: any; `find` and `is_dead` are called on the service's thread with no lock held, must be short and must not call back.
// In a forked child it is dead. Must not know: how windows are made, what a communicator is.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "hostccl/net/endpoint.h"
#include "hostccl/windows/session.h"

namespace hostccl {

struct WindowServiceOptions {
  std::shared_ptr<net::Endpoint> endpoint;
  net::Bytes16 topic;
  net::Bytes16 key;
  int rank = 0;
  int nranks = 1;
  // Null: there is no such window, or no longer.
  std::function<std::shared_ptr<const WindowMemory>(uint32_t window)> find;
  std::function<bool(int rank)> is_dead;
};

class WindowService {
 public:
  static pycomms::Result<std::unique_ptr<WindowService>> start(WindowServiceOptions options);
  ~WindowService();
  WindowService(const WindowService&) = delete;
  WindowService& operator=(const WindowService&) = delete;

  // For the owner, once the window is closed or `find` does not know it any more: when this is true nothing here touches its
  // memory. False: the deadline has passed.
  bool wait_until_unused(uint32_t window, pycomms::Deadline deadline);
  // Ends all connections. False: the thread has not ended by then; it may be called again.
  bool stop(pycomms::Deadline deadline);

  size_t connections() const { return connections_.load(std::memory_order_relaxed); }
  // Connections that were closed because of what came over them, and what that was the last time.
  uint64_t rejections() const;
  std::string last_rejection() const;

 private:
  struct Arrived {
    int rank;
    net::Descriptor socket;
    net::Address at;
  };
  struct Client {
    std::unique_ptr<WindowSession> session;
    bool watches_output = false;
    bool has_turn = false;
    bool waits_for_lock = false;
  };

  WindowService(WindowServiceOptions options, net::Descriptor epoll, net::Descriptor bell, net::Descriptor timer);
  bool is_foreign() const { return options_.endpoint->is_foreign(); }
  void ring() const;
  void on_arrival(net::Arrival arrival);

  void run();
  void take_arrivals();
  void release_windows();
  void give_turn(int rank);
  void take_turns();
  void serve(int rank);
  void note_waiting(Client& client, bool waits);
  void watch(int rank, bool output);
  void end(int rank);
  void look_at_locks();
  void set_timer();

  const WindowServiceOptions options_;
  const net::Descriptor epoll_;
  const net::Descriptor bell_;   // an eventfd
  const net::Descriptor timer_;  // of the locks that are waited for

  std::atomic<bool> stop_{false};
  std::atomic<size_t> connections_{0};
  std::atomic<uint32_t> releases_{0};  // how many requests to release a window have been met
  std::atomic<uint32_t> has_ended_{0};

  mutable std::mutex mutex_;
  std::vector<Arrived> arrived_;                               // GUARDED_BY(mutex_)
  std::vector<bool> came_;                                     // GUARDED_BY(mutex_): by rank; nobody comes twice
  std::vector<uint32_t> to_release_;                           // GUARDED_BY(mutex_)
  uint32_t releases_asked_ = 0;                                // GUARDED_BY(mutex_)
  uint64_t rejections_ = 0;                                    // GUARDED_BY(mutex_)
  std::string last_rejection_;                                 // GUARDED_BY(mutex_)
  std::unique_ptr<net::Endpoint::Registration> registration_;  // the owner's: start() and stop()

  // The thread's own.
  WindowHost host_;
  std::map<int, Client> clients_;
  std::vector<int> turns_;  // ranks whose sessions can go on without news from the kernel
  size_t lock_waiters_ = 0;
  uint64_t unlocks_seen_ = 0;
  int64_t lock_pause_ns_ = 0;
  bool timer_is_set_ = false;

  std::thread thread_;
};

}  // namespace hostccl
