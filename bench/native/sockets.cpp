// The limit of windows between hosts: two processes and one TCP connection, with nothing around it.
//   sockets SOCKET CORES RANK ADDRESS PORT
// A thread of rank 1 takes what comes and answers, asleep in the kernel in between, as a service does. A put sends a header and
// the bytes, and is answered by one word; a get asks for bytes; an update is a header there and a word back: one round trip.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/uio.h>

#include <functional>
#include <thread>

#include "rank_link.h"

namespace {

using bench::Command;
using bench::Reply;

constexpr int kPatienceMs = 60'000;

enum class What : uint64_t { kPut, kGet, kUpdate };

struct Header {
  What what;
  uint64_t bytes;
};

void send_all(int fd, const Header* head, const char* data, size_t bytes) {
  iovec parts[2] = {{const_cast<Header*>(head), head != nullptr ? sizeof *head : 0}, {const_cast<char*>(data), bytes}};
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    ssize_t sent = writev(fd, parts, 2);
    if (sent <= 0) bench::die("the other side is gone");
    for (iovec& part : parts) {
      const size_t here = std::min(part.iov_len, static_cast<size_t>(sent));
      part = {static_cast<char*>(part.iov_base) + here, part.iov_len - here};
      sent -= static_cast<ssize_t>(here);
    }
  }
}

// False: the other side has ended.
bool receive(int fd, void* to, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = recv(fd, static_cast<char*>(to) + done, bytes - done, 0);
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

// Rank 0 listens, rank 1 comes, and tries again until a minute has passed.
int meet(int rank, const char* address, int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, address, &at.sin_addr) != 1) bench::die(std::string("no address: ") + address);
  const auto* place = reinterpret_cast<const sockaddr*>(&at);
  const int64_t deadline = bench::now_ns() + int64_t{1'000'000} * kPatienceMs;
  for (;;) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (rank == 0) {
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      pollfd waited{fd, POLLIN, 0};
      if (bind(fd, place, sizeof at) != 0 || listen(fd, 1) != 0) bench::die("cannot listen");
      if (poll(&waited, 1, kPatienceMs) != 1) bench::die("rank 1 did not come");
      const int listener = std::exchange(fd, accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
      close(listener);
    } else if (connect(fd, place, sizeof at) != 0) {
      if (bench::now_ns() > deadline) bench::die("rank 0 does not listen");
      close(fd);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
  }
}

// The target's side, until the connection ends.
void answer_all(int fd) {
  std::vector<char> memory;
  uint64_t word = 0;
  for (Header head{}; receive(fd, &head, sizeof head);) {
    if (memory.size() < head.bytes) memory.resize(head.bytes, 5);
    if (head.what == What::kPut && !receive(fd, memory.data(), head.bytes)) return;
    if (head.what == What::kGet) {
      send_all(fd, nullptr, memory.data(), head.bytes);
    } else {
      send_all(fd, nullptr, reinterpret_cast<const char*>(&word), sizeof word);
      word += head.what == What::kUpdate;
    }
  }
}

class Origin {
 public:
  explicit Origin(int fd) : fd_(fd) {}

  Reply prepare(const std::string& op, size_t size) {
    Reply reply;
    data_.assign(size, 6);
    if (op == "rma_put") {
      call_ = [=, this] {
        ask({What::kPut, size}, data_.data(), size);
        take(&word_, sizeof word_);
      };
      call_();
      take_back(size);
      if (std::count(data_.begin(), data_.end(), 6) != static_cast<ptrdiff_t>(size)) reply.error = "wrong result";
    } else if (op == "rma_get") {
      call_ = [=, this] { take_back(size); };
      call_();
    } else if (op == "rma_fetch_add" || op == "rma_compare_swap") {
      call_ = [this] {
        ask({What::kUpdate, 0}, nullptr, 0);
        take(&word_, sizeof word_);
      };
      call_();
      const uint64_t before = word_;
      call_();
      if (word_ != before + 1) reply.error = "wrong result";
    } else {
      reply.unsupported = "there is no mapped memory here";
    }
    return reply;
  }

  Reply run(const Command& shape) {
    Reply reply;
    const int64_t start = bench::now_ns(), queued = bench::queued_ns();
    reply.series.push_back({"", bench::measure(shape, 1, call_)});
    reply.wall_ns = bench::now_ns() - start;
    reply.queued_ns = bench::queued_ns() - queued;
    return reply;
  }

 private:
  void ask(const Header& head, const char* data, size_t bytes) { send_all(fd_, &head, data, bytes); }
  void take(void* to, size_t bytes) {
    if (!receive(fd_, to, bytes)) bench::die("the target is gone");
  }
  void take_back(size_t size) {
    ask({What::kGet, size}, nullptr, 0);
    take(data_.data(), size);
  }

  const int fd_;
  std::vector<char> data_;
  uint64_t word_ = 0;
  std::function<void()> call_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) bench::die("usage: sockets SOCKET CORES RANK ADDRESS PORT");
  const int rank = std::stoi(argv[3]);
  bench::pin_to(bench::core_of(argv[2], rank));
  const int fd = meet(rank, argv[4], std::stoi(argv[5]));
  std::thread service;
  if (rank == 1) service = std::thread(answer_all, fd);
  bench::RankLink link(argv[1], "sockets", rank, "TCP");
  Origin origin(fd);
  Command command;
  while (link.next(command)) {
    Reply reply;
    if (rank == 0 && command.verb == "prepare") reply = origin.prepare(command.op, command.size);
    if (rank == 0 && command.verb == "run") reply = origin.run(command);
    if (rank == 1 && command.verb == "run") {
      reply.series.push_back({"", std::vector<double>(static_cast<size_t>(command.samples), 0.0)});
    }
    link.answer(reply);
  }
  shutdown(fd, SHUT_RDWR);
  if (service.joinable()) service.join();
  return 0;
}
