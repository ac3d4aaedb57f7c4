#include "hostccl/meeting_talk.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace hostccl {
namespace {

using pycomms::Deadline;

constexpr int64_t kLookAround = 50 * pycomms::kMillisecond;
constexpr int64_t kStuck = 5 * pycomms::kSecond;

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// True when it is ready for these events, or has ended.
bool wait_for(int fd, short events, int64_t ns) {
  pollfd look{fd, events, 0};
  return poll(&look, 1, pycomms::poll_ms(ns)) > 0;
}

}  // namespace

bool tell(int to, std::span<const std::byte> message) {
  const Deadline deadline = Deadline::after(kStuck);
  while (!message.empty()) {
    const ssize_t sent = send(to, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      message = message.subspan(static_cast<size_t>(sent));
    } else if (!would_block() || deadline.passed()) {
      return false;
    } else {
      static_cast<void>(wait_for(to, POLLOUT, kLookAround));
    }
  }
  return true;
}

bool tell(int to, const JoinReply& reply, int descriptor) {
  if (descriptor < 0) return tell(to, std::as_bytes(std::span(&reply, 1)));
  iovec data{const_cast<JoinReply*>(&reply), sizeof(reply)};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(to, &message, MSG_NOSIGNAL) == sizeof(reply);
}

Heard hear(int from, std::span<std::byte> message, Deadline deadline, const std::atomic<bool>& cancelled) {
  while (!message.empty()) {
    if (cancelled.load(std::memory_order_acquire)) return Heard::kCancelled;
    const ssize_t got = recv(from, message.data(), message.size(), MSG_DONTWAIT);
    if (got > 0) {
      message = message.subspan(static_cast<size_t>(got));
    } else if (got == 0 || !would_block()) {
      return Heard::kGone;
    } else if (deadline.passed()) {
      return Heard::kTimeout;
    } else {
      static_cast<void>(wait_for(from, POLLIN, kLookAround));
    }
  }
  return Heard::kAll;
}

Heard hear(int from, JoinReply& reply, pycomms::Fd& descriptor, Deadline deadline, const std::atomic<bool>& cancelled) {
  size_t heard = 0;
  while (heard < sizeof(reply)) {
    if (cancelled.load(std::memory_order_acquire)) return Heard::kCancelled;
    iovec data{reinterpret_cast<std::byte*>(&reply) + heard, sizeof(reply) - heard};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got > 0) {
      heard += static_cast<size_t>(got);
      const cmsghdr* const header = CMSG_FIRSTHDR(&message);
      if (header == nullptr || header->cmsg_type != SCM_RIGHTS) continue;
      int came;
      std::memcpy(&came, CMSG_DATA(header), sizeof(int));
      descriptor.reset(came);
    } else if (got == 0 || !would_block()) {
      return Heard::kGone;
    } else if (deadline.passed()) {
      return Heard::kTimeout;
    } else {
      static_cast<void>(wait_for(from, POLLIN, kLookAround));
    }
  }
  return Heard::kAll;
}

}  // namespace hostccl
