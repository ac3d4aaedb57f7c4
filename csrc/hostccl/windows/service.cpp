#include "hostccl/windows/service.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/futex.h"
#include "base/thread.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Deadline;
using pycomms::Fd;
using pycomms::Status;

// Names of events; a rank's connection is below.
constexpr uint64_t kBellEvent = uint64_t{1} << 32;
constexpr uint64_t kTimerEvent = kBellEvent + 1;
constexpr int kLookAnywayMs = 60'000;
constexpr int64_t kFirstLockPause = 100 * pycomms::kMicrosecond;
constexpr int64_t kLongestLockPause = pycomms::kMillisecond;
constexpr int64_t kTimeToEnd = 10 * pycomms::kSecond;

bool add_to(const net::Descriptor& epoll, int fd, uint64_t name) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = name;
  return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

pycomms::Result<std::unique_ptr<WindowService>> WindowService::start(WindowServiceOptions options) {
  net::Descriptor epoll(Fd(epoll_create1(EPOLL_CLOEXEC)));
  net::Descriptor bell(Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  net::Descriptor timer(Fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
  if (!epoll || !bell || !timer || !add_to(epoll, bell.get(), kBellEvent) || !add_to(epoll, timer.get(), kTimerEvent)) {
    return Status::system("opening the descriptors of a communicator's windows");
  }
  std::unique_ptr<WindowService> service(
      new WindowService(std::move(options), std::move(epoll), std::move(bell), std::move(timer)));
  WindowService* const raw = service.get();
  auto thread = pycomms::start_thread("pycomms-windows", [raw] { raw->run(); });
  if (!thread.is_ok()) return thread.status();
  service->thread_ = thread.take();
  auto registration =
      raw->options_.endpoint->serve({window_topic(raw->options_.topic, raw->options_.rank), raw->options_.key,
                                     raw->options_.rank, [raw](net::Arrival a) { raw->on_arrival(std::move(a)); }});
  if (!registration.is_ok()) return registration.status();
  service->registration_ = registration.take();
  return service;
}

WindowService::WindowService(WindowServiceOptions options, net::Descriptor epoll, net::Descriptor bell,
                             net::Descriptor timer)
    : options_(std::move(options)),
      epoll_(std::move(epoll)),
      bell_(std::move(bell)),
      timer_(std::move(timer)),
      came_(static_cast<size_t>(options_.nranks)),
      host_{options_.find, options_.is_dead} {}

WindowService::~WindowService() {
  if (is_foreign()) {
    // The thread stayed in the parent; its handle can be neither joined nor dropped.
    static_cast<void>(new std::thread(std::move(thread_)));
    return;
  }
  static_cast<void>(stop(Deadline::after(kTimeToEnd)));
  if (thread_.joinable()) thread_.join();
}

void WindowService::ring() const { static_cast<void>(eventfd_write(bell_.get(), 1)); }

bool WindowService::stop(Deadline deadline) {
  if (is_foreign()) return true;
  registration_.reset();
  stop_.store(true, std::memory_order_release);
  ring();
  if (!thread_.joinable()) return true;
  while (has_ended_.load(std::memory_order_acquire) == 0) {
    const int64_t left = deadline.left();
    if (left == 0) return false;
    pycomms::futex_wait(has_ended_, 0, left);
  }
  thread_.join();
  return true;
}

bool WindowService::wait_until_unused(uint32_t window, Deadline deadline) {
  if (is_foreign()) return true;
  uint32_t mine;
  {
    const std::lock_guard lock(mutex_);
    to_release_.push_back(window);
    mine = ++releases_asked_;
  }
  ring();
  for (;;) {
    const uint32_t met = releases_.load(std::memory_order_acquire);
    if (static_cast<int32_t>(met - mine) >= 0 || has_ended_.load(std::memory_order_acquire) != 0) return true;
    const int64_t left = deadline.left();
    if (left == 0) return false;
    // Not for long: the thread's end is told by another word.
    pycomms::futex_wait(releases_, met, std::min(left, pycomms::kMillisecond));
  }
}

uint64_t WindowService::rejections() const {
  const std::lock_guard lock(mutex_);
  return rejections_;
}

std::string WindowService::last_rejection() const {
  const std::lock_guard lock(mutex_);
  return last_rejection_;
}

// On the endpoint's thread.
void WindowService::on_arrival(net::Arrival arrival) {
  const int rank = arrival.rank();
  if (rank < 0 || rank >= options_.nranks || rank == options_.rank) return arrival.refuse(net::Verdict::kWrongRank);
  {
    const std::lock_guard lock(mutex_);
    // Never twice: what the first connection still brings could come after what the second one does.
    if (came_[static_cast<size_t>(rank)]) return arrival.refuse(net::Verdict::kNotWanted);
    const net::Address at = arrival.from();
    auto socket = arrival.accept();
    if (!socket.is_ok()) return;  // it has gone again, and may come back
    came_[static_cast<size_t>(rank)] = true;
    arrived_.push_back({rank, socket.take(), at});
  }
  ring();
}

void WindowService::run() {
  std::array<epoll_event, 64> events;
  while (!stop_.load(std::memory_order_acquire)) {
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), turns_.empty() ? kLookAnywayMs : 0);
    for (int i = 0; i < count; ++i) {
      const uint64_t name = events[static_cast<size_t>(i)].data.u64;
      if (name == kBellEvent) {
        eventfd_t rung;
        static_cast<void>(eventfd_read(bell_.get(), &rung));
        take_arrivals();
        release_windows();
      } else if (name == kTimerEvent) {
        uint64_t times;
        [[maybe_unused]] const ssize_t got = read(timer_.get(), &times, sizeof(times));
        timer_is_set_ = false;
        look_at_locks();
      } else {
        give_turn(static_cast<int>(name));
      }
    }
    take_turns();
    if (host_.unlocks != unlocks_seen_) {
      unlocks_seen_ = host_.unlocks;
      lock_pause_ns_ = 0;
      look_at_locks();
      take_turns();
    }
    set_timer();
  }
  clients_.clear();
  connections_.store(0, std::memory_order_relaxed);
  has_ended_.store(1, std::memory_order_release);
  pycomms::futex_wake_all(has_ended_);
}

void WindowService::take_arrivals() {
  std::vector<Arrived> fresh;
  {
    const std::lock_guard lock(mutex_);
    fresh.swap(arrived_);
  }
  for (Arrived& each : fresh) {
    // A reader that pauses is no dead host: who is dead is told by others.
    net::set_unanswered(each.socket, 0);
    Client& client = clients_[each.rank];
    client.session = std::make_unique<WindowSession>(host_, each.rank, std::move(each.socket), each.at);
    if (!add_to(epoll_, client.session->fd(), static_cast<uint64_t>(each.rank))) clients_.erase(each.rank);
  }
  connections_.store(clients_.size(), std::memory_order_relaxed);
}

void WindowService::release_windows() {
  std::vector<uint32_t> windows;
  uint32_t asked;
  {
    const std::lock_guard lock(mutex_);
    windows.swap(to_release_);
    asked = releases_asked_;
  }
  if (windows.empty()) return;
  for (auto& [rank, client] : clients_) {
    for (const uint32_t window : windows) client.session->release(window);
    give_turn(rank);
  }
  releases_.store(asked, std::memory_order_release);
  pycomms::futex_wake_all(releases_);
}

void WindowService::give_turn(int rank) {
  const auto found = clients_.find(rank);
  if (found == clients_.end() || std::exchange(found->second.has_turn, true)) return;
  turns_.push_back(rank);
}

void WindowService::take_turns() {
  std::vector<int> ranks;
  ranks.swap(turns_);
  for (const int rank : ranks) serve(rank);
}

void WindowService::serve(int rank) {
  Client& client = clients_.at(rank);
  client.has_turn = false;
  const WindowSession::Outcome outcome = client.session->advance();
  note_waiting(client, outcome != WindowSession::Outcome::kEnded && client.session->waits_for_lock());
  switch (outcome) {
    case WindowSession::Outcome::kIdle:
      return watch(rank, client.session->waits_for_output());
    case WindowSession::Outcome::kMore:
      watch(rank, false);
      return give_turn(rank);
    case WindowSession::Outcome::kEnded:
      return end(rank);
  }
}

void WindowService::note_waiting(Client& client, bool waits) {
  if (client.waits_for_lock == waits) return;
  client.waits_for_lock = waits;
  lock_waiters_ = waits ? lock_waiters_ + 1 : lock_waiters_ - 1;
}

// What a client asks is not read while it does not take what it has asked before.
void WindowService::watch(int rank, bool output) {
  Client& client = clients_.at(rank);
  if (std::exchange(client.watches_output, output) == output) return;
  epoll_event event{};
  event.events = output ? EPOLLOUT : EPOLLIN;
  event.data.u64 = static_cast<uint64_t>(rank);
  static_cast<void>(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.session->fd(), &event));
}

void WindowService::end(int rank) {
  const auto found = clients_.find(rank);
  const WindowSession& session = *found->second.session;
  if (!session.nonsense().empty()) {
    const std::lock_guard lock(mutex_);
    ++rejections_;
    last_rejection_ = "the connection from " + session.at().to_text() + " was closed: " + session.nonsense();
  }
  ++host_.unlocks;  // it may have kept others out of a lock that it waited for
  clients_.erase(found);
  connections_.store(clients_.size(), std::memory_order_relaxed);
}

void WindowService::look_at_locks() {
  if (lock_waiters_ == 0) return;
  for (auto& [rank, client] : clients_) {
    if (!client.waits_for_lock) continue;
    client.session->look_at_locks();
    give_turn(rank);
  }
}

// Locks are let go by ranks that map the memory too, and nobody tells us.
void WindowService::set_timer() {
  if (timer_is_set_) return;
  if (lock_waiters_ == 0) {
    lock_pause_ns_ = 0;
    return;
  }
  lock_pause_ns_ = lock_pause_ns_ == 0 ? kFirstLockPause : std::min(2 * lock_pause_ns_, kLongestLockPause);
  itimerspec when{};
  when.it_value.tv_nsec = lock_pause_ns_;
  timer_is_set_ = timerfd_settime(timer_.get(), 0, &when, nullptr) == 0;
}

}  // namespace hostccl
