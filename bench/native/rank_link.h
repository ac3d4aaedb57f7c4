// The rank's end of the driver's line protocol (bench/protocol.py) for the C++ contestants.
// One thread. Must not know which contestant speaks.
#pragma once

#include <dirent.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace bench {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::_Exit(1);
}

inline void pin_to(int core) {
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) die("cannot pin to core " + std::to_string(core));
}

// The core of a rank in a list such as "0,1"; -1 when the list is empty.
inline int core_of(const std::string& cores, int rank) {
  std::istringstream in(cores);
  std::string one;
  for (int i = 0; std::getline(in, one, ','); ++i)
    if (i == rank) return std::stoi(one);
  return -1;
}

// How long the threads of this process have been runnable but not running, in all.
inline int64_t queued_ns() {
  int64_t total = 0;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    const std::string path = std::string("/proc/self/task/") + task->d_name + "/schedstat";
    if (FILE* file = std::fopen(path.c_str(), "r")) {
      long long ran = 0, waited = 0;
      if (std::fscanf(file, "%lld %lld", &ran, &waited) == 2) total += waited;
      std::fclose(file);
    }
  }
  closedir(tasks);
  return total;
}

struct Command {
  std::string verb{}, op{};
  size_t size = 0;
  int warmup = 0, samples = 1, inner = 1;
};

// One named list of microseconds per call.
struct Series {
  std::string name;
  std::vector<double> us;
};

struct Reply {
  std::string error, unsupported;
  std::vector<Series> series;
  int64_t wall_ns = 0, queued_ns = 0;
};

class RankLink {
 public:
  RankLink(const std::string& path, const std::string& contestant, int rank, const std::string& version) {
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("cannot reach the driver");
    std::ostringstream out;
    out << R"({"contestant":")" << contestant << R"(","rank":)" << rank << R"(,"pid":)" << getpid() << R"(,"version":")"
        << version << "\"}\n";
    send_all(out.str());
  }
  ~RankLink() { close(fd_); }
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;

  // The next command; false when the driver says quit or is gone. Blocks, idle, as long as the driver lives.
  bool next(Command& command) {
    std::string line;
    char byte = 0;
    while (read(fd_, &byte, 1) == 1 && byte != '\n') line += byte;
    if (byte != '\n') return false;
    std::istringstream in(line);
    command = Command{};
    in >> command.verb;
    if (command.verb == "prepare") in >> command.op >> command.size;
    if (command.verb == "run") in >> command.warmup >> command.samples >> command.inner;
    return command.verb != "quit";
  }

  void answer(const Reply& reply) {
    std::ostringstream out;
    out.precision(9);
    out << R"({"error":")" << reply.error << R"(","unsupported":")" << reply.unsupported << R"(","wall_ns":)"
        << reply.wall_ns << R"(,"queued_ns":)" << reply.queued_ns << R"(,"series":{)";
    for (size_t i = 0; i < reply.series.size(); ++i) {
      out << (i ? ",\"" : "\"") << reply.series[i].name << "\":[";
      for (size_t j = 0; j < reply.series[i].us.size(); ++j) out << (j ? "," : "") << reply.series[i].us[j];
      out << "]";
    }
    out << "}}\n";
    send_all(out.str());
  }

 private:
  void send_all(const std::string& text) {
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t n = send(fd_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) die("the driver is gone");
      sent += static_cast<size_t>(n);
    }
  }

  int fd_;
};

// Times `call` as the Python ranks do: samples of `inner` calls, in microseconds per operation (`per` in one call).
template <class Call>
std::vector<double> measure(const Command& shape, int per, Call&& call) {
  for (int i = 0; i < shape.warmup; ++i) call();
  std::vector<double> us(static_cast<size_t>(shape.samples));
  for (double& sample : us) {
    const int64_t start = now_ns();
    for (int i = 0; i < shape.inner; ++i) call();
    sample = static_cast<double>(now_ns() - start) / (1000.0 * shape.inner * per);
  }
  return us;
}

}  // namespace bench
