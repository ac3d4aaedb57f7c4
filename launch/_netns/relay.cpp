// Carries Ethernet frames between the ports of a local cluster and makes the way long and lossy: a frame waits in a heap
// for its deadline, and a seeded generator for each direction says which are lost.
//
//     relay SEED PORT...      the I-th port leads to host I
//
// It takes orders from stdin, one a line, and answers each with one line, "ok ..." or "error ...":
//
//     go                                          begin to carry
//     wire SOURCE TARGET LATENCY_NS LOSS_PPM      from now on, in this direction
//     counts                                      ok CARRIED LOST DROPPED LATEST_NS
//
// One thread. It runs in the namespace of the cluster's switch and ends when stdin does, so it does not outlive its owner.
// Of a frame it looks at the destination only; addresses are those that plan.py gives to the hosts.

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// In front of each frame, both ways: the kernel's note about checksums and segments that are still to be made. Passed on
// unread, so that a frame of 64 KiB stays one.
constexpr size_t kNote = 10;
constexpr size_t kLargestFrame = kNote + ETH_HLEN + 65536 + 4;
constexpr std::array<uint8_t, 4> kOurs{0x02, 0x70, 0x79, 0x63};
constexpr int kPortBuffer = 64 << 20;
// More than 1 s at 4 Gbit/s. What comes on top is dropped, as a full switch would.
constexpr size_t kMostInFlight = 512 << 20;
constexpr int kTurn = 64;
constexpr uint64_t kMillion = 1'000'000;
constexpr int kNice = -10;  // what waits for a core here is seen as latency by all

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// splitmix64: any seed will do, neighbouring ones too.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

struct Wire {
  Random frames;
  Random groups;  // multicasts come when they like: they must not shift the sequence of the others
  int64_t latency_ns = 0;
  uint64_t loss_ppm = 0;
};

struct Frame {
  int64_t deadline;
  uint64_t serial;
  size_t target;
  size_t size;
  std::unique_ptr<char[]> bytes;
};

// The heap's top is the frame that is due first.
bool later(const Frame& a, const Frame& b) {
  return a.deadline != b.deadline ? a.deadline > b.deadline : a.serial > b.serial;
}

class Port {
 public:
  explicit Port(const char* name) : index_(static_cast<int>(if_nametoindex(name))) {
    fd_ = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (index_ == 0 || fd_ < 0 || setsockopt(fd_, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0 ||
        setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
        setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &kPortBuffer, sizeof kPortBuffer) != 0 ||
        setsockopt(fd_, SOL_SOCKET, SO_SNDBUFFORCE, &kPortBuffer, sizeof kPortBuffer) != 0) {
      throw std::runtime_error(std::string("port ") + name + ": " + std::strerror(errno));
    }
  }

  void go() const {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = index_;
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error(std::string("bind: ") + std::strerror(errno));
    }
  }

  int fd() const { return fd_; }

 private:
  int index_;
  int fd_ = -1;
};

class Relay {
 public:
  Relay(uint64_t seed, const std::vector<const char*>& names) {
    for (const char* name : names) ports_.emplace_back(name);
    Random seeds(seed);
    for (size_t i = 0; i < names.size() * names.size(); ++i) {
      wires_.push_back({.frames = Random(seeds.next()), .groups = Random(seeds.next())});
    }
  }

  // Until stdin ends.
  void run() {
    std::vector<pollfd> polled{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}};
    for (const Port& port : ports_) polled.push_back({.fd = port.fd(), .events = POLLIN, .revents = 0});
    do {
      wait(polled);
      for (size_t i = 0; i < ports_.size(); ++i) {
        if (polled[i + 1].revents != 0) take_from(i);
      }
      send_due();
    } while (polled[0].revents == 0 || obey());
  }

 private:
  void wait(std::vector<pollfd>& polled) const {
    timespec left{};
    if (!heap_.empty()) {
      const int64_t ns = std::max<int64_t>(0, heap_.front().deadline - now_ns());
      left = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    }
    if (ppoll(polled.data(), polled.size(), heap_.empty() ? nullptr : &left, nullptr) < 0) {
      for (pollfd& one : polled) one.revents = 0;
    }
  }

  void take_from(size_t source) {
    for (int i = 0; i < kTurn; ++i) {
      const ssize_t size = recv(ports_[source].fd(), buffer_.data(), buffer_.size(), 0);
      if (size < 0) {
        // EINVAL: a kind of segments that the note cannot tell. ENETDOWN: the link went down; it may come back.
        if (errno == EINVAL) ++dropped_;
        return;
      }
      if (static_cast<size_t>(size) >= kNote + ETH_HLEN) route(source, static_cast<size_t>(size));
    }
  }

  void route(size_t source, size_t size) {
    const auto* to = reinterpret_cast<const uint8_t*>(buffer_.data() + kNote);
    if ((to[0] & 1) != 0) {
      for (size_t target = 0; target < ports_.size(); ++target) {
        if (target != source) carry(source, target, size, wire(source, target).groups);
      }
    } else if (std::equal(kOurs.begin(), kOurs.end(), to)) {
      const size_t target = static_cast<size_t>(to[4]) << 8 | to[5];
      if (target < ports_.size() && target != source) carry(source, target, size, wire(source, target).frames);
    }
  }

  void carry(size_t source, size_t target, size_t size, Random& random) {
    const Wire& way = wire(source, target);
    if (way.loss_ppm != 0 && random.next() % kMillion < way.loss_ppm) {
      ++lost_;
      return;
    }
    if (in_flight_ + size > kMostInFlight) {
      ++dropped_;
      return;
    }
    in_flight_ += size;
    std::unique_ptr<char[]> bytes(new char[size]);
    std::memcpy(bytes.get(), buffer_.data(), size);
    heap_.push_back({now_ns() + way.latency_ns, serial_++, target, size, std::move(bytes)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  void send_due() {
    int64_t now = now_ns();
    while (!heap_.empty() && heap_.front().deadline <= now) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      const Frame frame = std::move(heap_.back());
      heap_.pop_back();
      in_flight_ -= frame.size;
      // A port that is down or whose queue is full loses the frame, as a real one does.
      const ssize_t sent = send(ports_[frame.target].fd(), frame.bytes.get(), frame.size, MSG_DONTWAIT);
      ++(sent < 0 ? dropped_ : carried_);
      now = now_ns();
      latest_ns_ = std::max(latest_ns_, now - frame.deadline);
    }
  }

  // False when stdin has ended.
  bool obey() {
    std::array<char, 4096> text{};
    const ssize_t size = read(STDIN_FILENO, text.data(), text.size());
    if (size <= 0) return size < 0 && errno == EINTR;
    orders_.append(text.data(), static_cast<size_t>(size));
    for (size_t end = orders_.find('\n'); end != std::string::npos; end = orders_.find('\n')) {
      std::printf("%s\n", answer(orders_.substr(0, end)).c_str());
      orders_.erase(0, end + 1);
    }
    std::fflush(stdout);
    return true;
  }

  std::string answer(const std::string& order) {
    std::istringstream words(order);
    std::string verb;
    words >> verb;
    if (verb == "go") {
      for (const Port& port : ports_) port.go();
      return "ok";
    }
    if (verb == "counts") {
      return "ok " + std::to_string(carried_) + ' ' + std::to_string(lost_) + ' ' + std::to_string(dropped_) + ' ' +
             std::to_string(latest_ns_);
    }
    size_t source = 0;
    size_t target = 0;
    int64_t latency_ns = 0;
    uint64_t loss_ppm = 0;
    if (verb == "wire" && words >> source >> target >> latency_ns >> loss_ppm && source < ports_.size() &&
        target < ports_.size() && latency_ns >= 0) {
      wire(source, target).latency_ns = latency_ns;
      wire(source, target).loss_ppm = loss_ppm;
      return "ok";
    }
    return "error not an order: " + order;
  }

  Wire& wire(size_t source, size_t target) { return wires_[source * ports_.size() + target]; }

  std::vector<Port> ports_;
  std::vector<Wire> wires_;
  std::vector<Frame> heap_;
  std::vector<char> buffer_ = std::vector<char>(kLargestFrame);
  std::string orders_;
  uint64_t serial_ = 0;
  size_t in_flight_ = 0;
  uint64_t carried_ = 0;
  uint64_t lost_ = 0;
  uint64_t dropped_ = 0;
  int64_t latest_ns_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "relay SEED PORT...\n");
    return 2;
  }
  setpriority(PRIO_PROCESS, 0, kNice);  // where that is refused, latencies are less exact
  try {
    Relay(std::strtoull(argv[1], nullptr, 10), {argv + 2, argv + argc}).run();
  } catch (const std::exception& error) {
    std::printf("error %s\n", error.what());
    return 1;
  }
  return 0;
}
