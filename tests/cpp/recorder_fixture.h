// What the tests of the flight recorder share: rings in folders that go, entries whose fields can be checked against each
// other, and forked children that say how far they are.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "check.h"
#include "recorder/reader.h"
#include "recorder/ring.h"

namespace recorder_test {

using namespace pycomms;
using namespace pycomms::recorder;

// A folder that goes with its contents.
class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / "pycomms-recorder-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline RingOptions options_at(const std::string& path, uint32_t entries) {
  RingOptions options;
  options.path = path;
  options.entries = entries;
  options.groups = 4;
  options.rank = 3;
  options.world_size = 8;
  options.attempt = 2;
  options.job = "a job";
  options.kinds = "broadcast\nall_reduce\n";
  return options;
}

inline std::unique_ptr<Ring> make_ring(const std::string& path, uint32_t entries) {
  auto made = Ring::create(options_at(path, entries));
  CHECK(made.is_ok());
  return made.take();
}

inline std::unique_ptr<Reader> open_reader(const std::string& path) {
  auto opened = Reader::open(path);
  CHECK(opened.is_ok());
  return opened.take();
}

inline GroupInfo group_of(const std::string& name) {
  GroupInfo group;
  group.name = name;
  group.description = "described";
  group.ranks = {1, 3, 5};
  group.rank = 1;
  group.size = 3;
  return group;
}

inline Issue issue_of(uint32_t group, uint32_t sequence) {
  Issue issue;
  issue.group = group;
  issue.sequence = sequence;
  issue.kind = 1;
  return issue;
}

// Fields that a reader can check against each other: a mixture of two entries shows.
inline Issue consistent_issue(uint32_t group, uint32_t number) {
  Issue issue = issue_of(group, number);
  issue.root = static_cast<int32_t>(number);
  issue.tag = static_cast<int32_t>(~number);
  issue.bytes = uint64_t{number} * 3;
  issue.stream = uint64_t{number} * 5;
  return issue;
}

inline bool is_consistent(const SeenEntry& e) {
  return e.root == static_cast<int32_t>(e.sequence) && e.tag == static_cast<int32_t>(~e.sequence) &&
         e.bytes == uint64_t{e.sequence} * 3 && e.stream == uint64_t{e.sequence} * 5;
}

// A forked child, which ends with this object at the latest. body(tell) runs in it; tell() lets await() return.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      alarm(60);
      body([&] {
        if (write(ends[1], "x", 1) != 1) _exit(1);
      });
      _exit(0);
    }
    close(ends[1]);
    told_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) end_by(SIGKILL);
    close(told_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void await() const {
    char byte;
    CHECK_EQ(read(told_, &byte, 1), ssize_t{1});  // 0: it has ended
  }
  // What waitpid says of it.
  int end() {
    int status = -1;
    CHECK_EQ(waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
    return status;
  }
  int end_by(int signal) {
    kill(pid_, signal);
    return end();
  }

 private:
  pid_t pid_ = -1;
  int told_ = -1;
};

}  // namespace recorder_test
