#include "hostccl/net/reception.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

namespace hostccl::net {

bool Reception::watch(int fd, uint32_t events, uint64_t number) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = number;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Reception::unwatch(const Guest& guest) {
  static_cast<void>(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, guest.socket.get(), nullptr));
}

void Reception::dismiss(Guests& guests, Guests::iterator guest, Rejection reason, const std::string& why) {
  rejections_.note(reason, guest->second.from, why);
  guests.erase(guest);
}

void Reception::welcome(Descriptor socket, const Address& from, int64_t now) {
  auto nonce = random_bytes16();
  if (!nonce.is_ok()) return rejections_.note(Rejection::kSystem, from, nonce.status().message());
  Guest guest{std::move(socket), from, make_greeting(nonce.value()), {}, 0};
  guest.until_ns = now + limits_.hello_ns;
  const auto greeting = std::as_bytes(std::span(&guest.greeting, 1));
  if (send_some(guest.socket, greeting) != static_cast<ssize_t>(greeting.size())) {
    return rejections_.note(Rejection::kLeft, from, "could not be greeted");
  }
  if (newcomers_.size() >= limits_.newcomers) {
    dismiss(newcomers_, newcomers_.begin(), Rejection::kEvicted, "said no hello while many others came");
  }
  const uint64_t number = next_number_++;
  if (!watch(guest.socket.get(), EPOLLIN | EPOLLRDHUP, number)) {
    return rejections_.note(Rejection::kSystem, from, "epoll_ctl failed");
  }
  newcomers_.emplace(number, std::move(guest));
}

void Reception::hear(uint64_t number, const std::function<void(Guest)>& said_hello) {
  if (const auto early = early_.find(number); early != early_.end()) {
    return dismiss(early_, early, Rejection::kLeft, "left before its topic was served here");
  }
  const auto found = newcomers_.find(number);
  if (found == newcomers_.end()) return;  // sent away by an event before this one
  Guest& guest = found->second;
  const ssize_t got = receive_some(guest.socket, guest.hello.missing());
  if (got < 0) {
    return dismiss(newcomers_, found, Rejection::kLeft,
                   "left after " + std::to_string(guest.hello.have) + " of " + std::to_string(sizeof(Hello)) +
                       " bytes of its hello");
  }
  guest.hello.have += static_cast<size_t>(got);
  // A wrong opening is seen with its first bytes: such a stranger need not be waited for.
  if (guest.hello.have >= sizeof(Opening)) {
    const std::string wrong = check_opening(guest.hello.value.opening);
    if (!wrong.empty()) return dismiss(newcomers_, found, Rejection::kMalformed, wrong);
  }
  if (!guest.hello.is_complete()) return;
  Guest whole = std::move(guest);
  newcomers_.erase(found);
  unwatch(whole);
  said_hello(std::move(whole));
}

void Reception::keep(Guest guest, int64_t now) {
  if (early_.size() >= limits_.early) {
    dismiss(early_, early_.begin(), Rejection::kEvicted, "its topic is not served here, and many others came");
  }
  const uint64_t number = next_number_++;
  // Only its end: it has nothing more to say before it is answered.
  if (!watch(guest.socket.get(), EPOLLRDHUP, number)) {
    return rejections_.note(Rejection::kSystem, guest.from, "epoll_ctl failed");
  }
  guest.until_ns = now + limits_.early_ns;
  early_.emplace(number, std::move(guest));
}

std::vector<Guest> Reception::take_early(const Bytes16& topic) {
  std::vector<Guest> taken;
  for (auto each = early_.begin(); each != early_.end();) {
    if (each->second.hello.value.topic != topic) {
      ++each;
      continue;
    }
    unwatch(each->second);
    taken.push_back(std::move(each->second));
    each = early_.erase(each);
  }
  return taken;
}

void Reception::send_overdue_away(int64_t now) {
  while (!newcomers_.empty() && newcomers_.begin()->second.until_ns <= now) {
    dismiss(newcomers_, newcomers_.begin(), Rejection::kTimedOut, "did not finish its hello in time");
  }
  while (!early_.empty() && early_.begin()->second.until_ns <= now) {
    dismiss(early_, early_.begin(), Rejection::kTimedOut, "its topic was not served here in time");
  }
}

int64_t Reception::next_deadline_ns() const {
  int64_t next = pycomms::kForever;
  if (!newcomers_.empty()) next = std::min(next, newcomers_.begin()->second.until_ns);
  if (!early_.empty()) next = std::min(next, early_.begin()->second.until_ns);
  return next;
}

}  // namespace hostccl::net
