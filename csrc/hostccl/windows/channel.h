// An origin's connection to the window service of one peer, which its callers move on themselves: sends requests, takes the
// answers to where they belong, and keeps the errors of requests that nobody waited for.
//
// Threads: whoever has its turn; forgo_lock() and wait_for_news() any. Blocks in slices, and looks in between for
// reasons to stop. A call that is given up amid a request ends the connection. Must not know: what the requests mean.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/timed_mutex.h"
#include "hostccl/net/dial.h"
#include "hostccl/windows/exchange.h"

namespace hostccl {

struct WindowChannelOptions {
  net::Introduction who;
  net::Address to;
  uint32_t own_scope = 0;
  net::SocketOptions socket;
  // Why to stop now, asked every few milliseconds.
  std::function<pycomms::Status()> trouble;
};

class WindowChannel {
 public:
  explicit WindowChannel(WindowChannelOptions options);

  // A holder of the turn, by whom all below is called. Empty: the status says why.
  class Turn {
   public:
    Turn(WindowChannel& channel, pycomms::Deadline deadline);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    const pycomms::Status& status() const { return status_; }

   private:
    WindowChannel& channel_;
    pycomms::Status status_;
  };

  // Something was asked of the peer that may not have been done.
  bool has_unflushed() const { return has_unflushed_; }
  // The error of a request that nobody waited for, once.
  pycomms::Status take_kept_error() { return std::exchange(kept_, pycomms::Status::ok()); }
  // Why there is no connection any more; ok: there is one, or none was needed yet.
  const pycomms::Status& ended() const { return ended_; }

  uint64_t next_number() const { return sent_number_ + 1; }
  // Connects first. Returns when all is sent and answered.
  pycomms::Status exchange(WindowRequests& requests, WindowAnswers& answers, pycomms::Deadline deadline);

  // An answer that others may receive: of a lock.
  struct LockAnswer {
    WindowVerdict verdict;
    int rank;
    pycomms::Status status;
  };
  void expect_lock(uint64_t number) { locks_.emplace(number, std::nullopt); }
  void expect_lock_no_more(uint64_t number) { locks_.erase(number); }
  // None: not yet. The status of a connection that has ended is an error.
  pycomms::Result<std::optional<LockAnswer>> look_for_lock(uint64_t number);
  // Without the turn: waits for news, but not long.
  void wait_for_news(pycomms::Deadline deadline) const;
  // Without the turn: the lock is not wanted any more, whatever has become of it. Never waits.
  void forgo_lock(uint64_t number);

  // Deadline, or trouble; ok: go on.
  pycomms::Status look_around(pycomms::Deadline deadline) const;

 private:
  enum class For : uint8_t { kCaller, kLock, kKept, kNobody };

  pycomms::Status connect(pycomms::Deadline deadline);
  bool send(WindowRequests& requests);
  bool receive(WindowAnswers& answers);
  bool parse(WindowAnswers& answers);
  bool begin_answer(WindowAnswers& answers);
  void finish_answer(WindowAnswers& answers);
  void give_up(const WindowRequests& requests);
  void forgo_what_is_due();
  void release_turn();
  void end(pycomms::Status why);
  bool lose(const std::string& how);
  pycomms::Status status_of_answer() const;
  std::string name() const;

  const WindowChannelOptions options_;

  pycomms::TimedMutex turn_;
  std::atomic<int> fd_{-1};  // to wait without the turn; what it names may have gone
  std::atomic<size_t> to_forgo_count_{0};
  std::mutex forgo_mutex_;
  std::vector<uint64_t> to_forgo_;  // GUARDED_BY(forgo_mutex_)

  // All below: whoever has the turn.
  std::unique_ptr<net::Dial> dial_;
  net::Descriptor socket_;
  size_t segment_ = 0;
  pycomms::Status ended_;  // not ok: there is no connection, and there will be none
  uint64_t sent_number_ = 0;
  bool has_unflushed_ = false;
  pycomms::Status kept_;
  std::map<uint64_t, std::optional<LockAnswer>> locks_;  // that are waited for, by number

  static constexpr size_t kBuffer = 16 << 10;
  std::unique_ptr<std::byte[]> in_;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  // The answer whose payload comes in.
  WindowAnswer answer_{};
  For for_ = For::kNobody;
  uint64_t payload_left_ = 0;
  std::byte* sink_ = nullptr;  // null: it is dropped
  std::array<std::byte, kWindowWords> words_;
};

}  // namespace hostccl
