// The flight recorder's ring: what is written is read, by another mapping of the file, while it is written and after the
// process that wrote it was killed.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "check.h"
#include "recorder/dump.h"
#include "recorder/dumper.h"
#include "recorder/process.h"
#include "recorder/reader.h"
#include "recorder/ring.h"

using namespace pycomms;
using namespace pycomms::recorder;

namespace {

// A folder that goes with its contents.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/pycomms-recorder-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

RingOptions options_at(const std::string& path, uint32_t entries) {
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

std::unique_ptr<Ring> make_ring(const std::string& path, uint32_t entries) {
  auto made = Ring::create(options_at(path, entries));
  CHECK(made.is_ok());
  return made.take();
}

std::unique_ptr<Reader> open_reader(const std::string& path) {
  auto opened = Reader::open(path);
  CHECK(opened.is_ok());
  return opened.take();
}

GroupInfo group_of(const std::string& name) {
  GroupInfo group;
  group.name = name;
  group.description = "described";
  group.ranks = {1, 3, 5};
  group.rank = 1;
  group.size = 3;
  return group;
}

Issue issue_of(uint32_t group, uint32_t sequence) {
  Issue issue;
  issue.group = group;
  issue.sequence = sequence;
  issue.kind = 1;
  return issue;
}

// Fields that a reader can check against each other: a mixture of two entries shows.
Issue consistent_issue(uint32_t group, uint32_t number) {
  Issue issue = issue_of(group, number);
  issue.root = static_cast<int32_t>(number);
  issue.tag = static_cast<int32_t>(~number);
  issue.bytes = uint64_t{number} * 3;
  issue.stream = uint64_t{number} * 5;
  return issue;
}

bool is_consistent(const SeenEntry& e) {
  return e.root == static_cast<int32_t>(e.sequence) && e.tag == static_cast<int32_t>(~e.sequence) &&
         e.bytes == uint64_t{e.sequence} * 3 && e.stream == uint64_t{e.sequence} * 5;
}

}  // namespace

TEST(what_is_written_is_read) {
  const Folder folder;
  const auto ring = make_ring(folder / "one.ring", 8);
  const uint32_t group = ring->add_group(group_of("tp"));
  Issue issue = issue_of(group, 7);
  issue.reduction = 2;
  issue.flags = kAsync;
  issue.root = 4;
  issue.timeout_ms = 1500;
  issue.site = ring->intern("train.py:88\nstep");
  Sizes sizes;
  sizes.begin(1);
  sizes.tensor(6, std::vector<int64_t>{300, 2});
  const Entry entry = ring->begin(issue, sizes, 1000);
  entry.start(1100);
  entry.end(State::kFailed, 1500, 0, "rank 5 is gone");

  const auto reader = open_reader(folder / "one.ring");
  CHECK_EQ(reader->header().rank, 3);
  CHECK_EQ(reader->header().attempt, 2);
  CHECK_EQ(reader->text(reader->header().job), std::string("a job"));
  CHECK_EQ(reader->header().process_started, started_ticks(getpid()));
  const auto groups = reader->groups();
  CHECK_EQ(groups.size(), size_t{2});
  CHECK_EQ(groups[1].name, std::string("tp"));
  CHECK(groups[1].ranks == (std::vector<uint32_t>{1, 3, 5}));
  CHECK_EQ(groups[1].issued, 7u);
  CHECK_EQ(groups[1].started, 7u);
  CHECK_EQ(groups[1].completed, 0u);
  const auto entries = reader->entries();
  CHECK_EQ(entries.size(), size_t{1});
  const SeenEntry& e = entries[0];
  CHECK_EQ(e.sequence, 7u);
  CHECK_EQ(e.issued_ns, int64_t{1000});
  CHECK_EQ(e.started_ns, int64_t{1100});
  CHECK_EQ(e.ended_ns, int64_t{1500});
  CHECK(e.state == State::kFailed);
  CHECK_EQ(e.site, std::string("train.py:88\nstep"));
  CHECK_EQ(e.error, std::string("rank 5 is gone"));
  CHECK(e.sizes == (std::vector<uint8_t>{1, 6, 2, 0xAC, 0x02, 2}));
  CHECK_EQ(e.root, 4);
  CHECK_EQ(e.timeout_ms, 1500u);
}

TEST(old_entries_are_overwritten_and_late_ends_of_theirs_change_nothing) {
  const Folder folder;
  const auto ring = make_ring(folder / "one.ring", 4);
  const uint32_t group = ring->add_group(group_of("g"));
  std::vector<Entry> begun;
  for (uint32_t i = 1; i <= 10; ++i) begun.push_back(ring->begin(issue_of(group, i), {}));
  begun[1].end(State::kFailed, 99, 0, "of an entry that is no longer there");
  begun[9].end(State::kCompleted, 99);
  const auto reader = open_reader(folder / "one.ring");
  const auto entries = reader->entries();
  CHECK_EQ(entries.size(), size_t{4});
  for (uint32_t i = 0; i < 4; ++i) {
    CHECK_EQ(entries[i].sequence, 7 + i);
    CHECK(entries[i].state == (i == 3 ? State::kCompleted : State::kIssued));
  }
  CHECK_EQ(reader->header().next.load(), uint64_t{10});
  const auto groups = reader->groups();
  CHECK_EQ(groups[1].completed, 10u);
}

TEST(sizes_that_do_not_fit_are_cut_and_said) {
  const Folder folder;
  const auto ring = make_ring(folder / "one.ring", 4);
  Sizes sizes;
  sizes.begin(100);
  for (int i = 0; i < 100; ++i) sizes.tensor(1, std::vector<int64_t>{1 << 20, 7});
  CHECK(sizes.was_cut());
  ring->begin(issue_of(0, 1), sizes);
  const auto entries = open_reader(folder / "one.ring")->entries();
  CHECK(entries[0].flags & kSizesCut);
  CHECK(entries[0].sizes.size() <= kSizesBytes);
}

TEST(a_full_heap_loses_texts_and_nothing_else) {
  const Folder folder;
  const auto ring = make_ring(folder / "one.ring", 4);
  Text last = 1;
  for (int i = 0; last != 0; ++i) last = ring->intern(std::to_string(i) + std::string(4000, 'x'));
  const Entry entry = ring->begin(issue_of(0, 1), {});
  entry.end(State::kFailed, 5, 0, std::string(5000, 'y'));
  const auto reader = open_reader(folder / "one.ring");
  const auto entries = reader->entries();
  CHECK(entries[0].state == State::kFailed);
  CHECK_EQ(entries[0].error, std::string());
  CHECK(reader->header().heap_lost.load() >= 2);
}

TEST(groups_that_have_no_room_share_one) {
  const Folder folder;
  const auto ring = make_ring(folder / "one.ring", 4);
  for (int i = 1; i < 4; ++i) CHECK_EQ(ring->add_group(group_of("g")), static_cast<uint32_t>(i));
  CHECK_EQ(ring->add_group(group_of("one too many")), 0u);
  CHECK_EQ(open_reader(folder / "one.ring")->header().groups_lost.load(), 1u);
}

TEST(bad_files_and_places_are_refused) {
  const Folder folder;
  CHECK(!Ring::create(options_at(folder / "no/such/folder", 4)).is_ok());
  CHECK(!Ring::create(options_at(folder / "one.ring", 0)).is_ok());
  make_ring(folder / "one.ring", 4);
  CHECK(!Ring::create(options_at(folder / "one.ring", 4)).is_ok());  // it is there already
  CHECK(!Reader::open(folder / "nothing").is_ok());
  std::ofstream(folder / "stray") << std::string(10000, 'x');
  CHECK(!Reader::open(folder / "stray").is_ok());
  std::filesystem::copy(folder / "one.ring", folder / "short");
  std::filesystem::resize_file(folder / "short", kHeaderBytes + 100);
  CHECK(!Reader::open(folder / "short").is_ok());
  struct stat info;
  CHECK_EQ(stat((folder / "one.ring").c_str(), &info), 0);
  CHECK_EQ(info.st_mode & 0777, mode_t{0600});
}

TEST(many_threads_write_and_one_reads) {
  constexpr uint32_t kEach = check::kDetectsRaces ? 2'000 : 20'000;
  constexpr uint32_t kThreads = 4;
  const Folder folder;
  const auto ring = make_ring(folder / "one.ring", 64);
  const uint32_t group = ring->add_group(group_of("g"));
  const auto reader = open_reader(folder / "one.ring");
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> mixed{0}, seen{0};
  std::thread watching([&] {
    do {
      for (const SeenEntry& e : reader->entries()) {
        ++seen;
        if (!is_consistent(e)) ++mixed;
      }
    } while (!is_over);
  });
  std::vector<std::thread> writers;
  for (uint32_t t = 0; t < kThreads; ++t) {
    writers.emplace_back([&, t] {
      Entry before;
      for (uint32_t i = 0; i < kEach; ++i) {
        const Entry entry = ring->begin(consistent_issue(group, t * kEach + i + 1), {});
        before.end(State::kCompleted, 1);
        before = entry;
      }
    });
  }
  for (auto& writer : writers) writer.join();
  is_over = true;
  watching.join();
  CHECK_EQ(mixed.load(), uint64_t{0});
  CHECK(seen.load() > 0);
  size_t torn = 0;
  const auto entries = reader->entries(&torn);
  CHECK_EQ(torn, size_t{0});
  CHECK_EQ(reader->header().next.load(), uint64_t{kThreads * kEach});
  for (const SeenEntry& e : entries) CHECK(is_consistent(e));
}

TEST(what_a_killed_process_wrote_is_complete) {
  for (int round = 0; round < 20; ++round) {
    const Folder folder;
    const std::string path = folder / "one.ring";
    int ready[2];
    CHECK_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto made = Ring::create(options_at(path, 64));
      if (!made.is_ok()) _exit(1);
      const uint32_t group = made.value()->add_group(group_of("g"));
      for (uint32_t i = 1;; ++i) {
        made.value()->begin(consistent_issue(group, i), {}).end(State::kCompleted, 1);
        if (i == 200 && write(ready[1], "x", 1) != 1) _exit(1);
      }
    }
    char byte;
    CHECK_EQ(read(ready[0], &byte, 1), ssize_t{1});
    usleep(static_cast<useconds_t>(round * 37));  // at another instruction each time
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, nullptr, 0), child);
    close(ready[0]);
    close(ready[1]);
    const auto reader = open_reader(path);
    size_t torn = 0;
    const auto entries = reader->entries(&torn);
    CHECK(torn <= 1);
    CHECK_EQ(entries.size() + torn, size_t{64});
    for (const SeenEntry& e : entries) CHECK(is_consistent(e));
    for (size_t i = 1; i < entries.size(); ++i) CHECK_EQ(entries[i].sequence, entries[i - 1].sequence + 1);
    CHECK(entries.back().sequence >= 200);
  }
}

// As in a driver call that does not come back: no signal but SIGKILL reaches it, and no debugger.
TEST(the_record_of_a_process_in_an_uninterruptible_wait_is_readable) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // sanitizers make a fork of a vfork, which does not wait
#endif
  const Folder folder;
  const std::string path = folder / "one.ring";
  const pid_t child = fork();
  if (child == 0) {
    auto made = Ring::create(options_at(path, 64));
    if (!made.is_ok()) _exit(1);
    const uint32_t group = made.value()->add_group(group_of("g"));
    for (uint32_t i = 1; i <= 5; ++i) {
      const Entry entry = made.value()->begin(consistent_issue(group, i), {});
      i < 5 ? entry.end(State::kCompleted, 1) : entry.start(1);
    }
    // Until its child has ended or called exec, the kernel keeps a process that has called vfork().
    const pid_t me = getpid();
    if (vfork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != me) _exit(0);  // it was killed before
      alarm(60);
      for (;;) pause();
    }
    _exit(0);
  }
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  const Deadline deadline = Deadline::after(30 * kSecond);
  char state = '?';
  while (state != 'D' && !deadline.passed()) {
    std::string text;
    std::getline(std::ifstream(stat), text);
    if (const size_t at = text.rfind(')'); at != std::string::npos && at + 2 < text.size()) state = text[at + 2];
  }
  CHECK_EQ(state, 'D');
  const auto entries = open_reader(path)->entries();
  kill(child, SIGKILL);
  CHECK_EQ(waitpid(child, nullptr, 0), child);
  CHECK_EQ(entries.size(), size_t{5});
  CHECK(entries[3].state == State::kCompleted);
  CHECK(entries[4].state == State::kRunning);
}

TEST(a_forked_child_records_nothing) {
  const Folder folder;
  set_process_ring(make_ring(folder / "one.ring", 8));
  Ring* ring = process_ring();
  const Entry entry = ring->begin(issue_of(0, 1), {});
  const pid_t child = fork();
  if (child == 0) {
    entry.end(State::kFailed, 5);
    _exit(process_ring() == nullptr ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const auto entries = open_reader(folder / "one.ring")->entries();
  CHECK(entries[0].state == State::kIssued);
}

TEST(dumps_are_numbered_and_never_overwritten) {
  const Folder folder;
  const auto ring = make_ring(folder / "rank3.17.ring", 8);
  ring->begin(issue_of(0, 1), {});
  std::ofstream(folder / "rank3.17.2.dump") << "somebody's";
  std::string first, second;
  CHECK(dump(*ring, folder.path(), "the first", &first).is_ok());
  ring->begin(issue_of(0, 2), {});
  CHECK(dump(*ring, folder.path(), "the second", &second).is_ok());
  CHECK_EQ(first, folder / "rank3.17.1.dump");
  CHECK_EQ(second, folder / "rank3.17.3.dump");
  const auto reader = open_reader(first);
  CHECK_EQ(reader->entries().size(), size_t{1});
  CHECK_EQ(reader->text(reader->header().reason), std::string("the first"));
  CHECK_EQ(open_reader(second)->entries().size(), size_t{2});
  CHECK(!dump(*ring, folder / "nowhere", "a third", &first).is_ok());
  CHECK(!std::filesystem::exists(folder / "rank3.17.3.part"));
}

TEST(requests_are_served_by_a_thread_of_their_own) {
  const Folder folder;
  set_process_ring(make_ring(folder / "rank3.18.ring", 8));
  std::atomic<int> told{0};
  Dumper& dumper = Dumper::instance();
  dumper.set_up(folder.path(), 2, [&](const std::string&) { ++told; });
  dumper.request("a group has failed");
  CHECK(dumper.wait_until_idle(Deadline::after(20 * kSecond)));
  CHECK_EQ(told.load(), 1);
  CHECK(dump_on_signal(SIGUSR2).is_ok());
  raise(SIGUSR2);
  CHECK(dumper.wait_until_idle(Deadline::after(20 * kSecond)));
  CHECK_EQ(told.load(), 2);
  const auto reader = open_reader(folder / "rank3.18.2.dump");
  CHECK_EQ(reader->text(reader->header().reason), "signal " + std::to_string(SIGUSR2));
  dumper.request("one too many");
  CHECK(dumper.wait_until_idle(Deadline::after(20 * kSecond)));
  CHECK_EQ(told.load(), 2);
  dumper.set_up("", 0, nullptr);
}

TEST(a_forked_child_has_a_dumper_and_handlers_of_its_own) {
  if (check::kDetectsRaces) return;  // TSan does not let a child of several threads start one
  const Folder folder;
  set_process_ring(make_ring(folder / "parent.ring", 8));
  Dumper::instance().set_up(folder.path(), 2, nullptr);
  CHECK(dump_on_signal(SIGUSR2).is_ok());
  CHECK(note_signal(SIGTERM).is_ok());
  int ready[2];
  CHECK_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    raise(SIGUSR2);  // it has no ring: nothing happens
    auto made = Ring::create(options_at(folder / "child.ring", 8));
    if (!made.is_ok()) _exit(1);
    set_process_ring(made.take());
    Dumper::instance().set_up(folder.path(), 2, nullptr);
    if (!dump_on_signal(SIGUSR2).is_ok() || !note_signal(SIGTERM).is_ok()) _exit(2);
    raise(SIGUSR2);
    if (!Dumper::instance().wait_until_idle(Deadline::after(30 * kSecond))) _exit(3);
    if (write(ready[1], "x", 1) != 1) _exit(4);
    for (;;) pause();
  }
  close(ready[1]);
  char byte;
  CHECK_EQ(read(ready[0], &byte, 1), ssize_t{1});
  close(ready[0]);
  kill(child, SIGTERM);
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  CHECK(std::filesystem::exists(folder / "child.1.dump"));
  CHECK(!std::filesystem::exists(folder / "parent.1.dump"));
  signal(SIGTERM, SIG_DFL);
  Dumper::instance().set_up("", 0, nullptr);
}

TEST(a_signal_is_noted_and_passed_on) {
  if (check::kDetectsRaces) return;  // TSan calls handlers outside of their signal: raising it again there is lost
  const Folder folder;
  const std::string path = folder / "one.ring";
  int ready[2];
  CHECK_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    auto made = Ring::create(options_at(path, 8));
    if (!made.is_ok()) _exit(1);
    set_process_ring(made.take());
    if (!note_signal(SIGTERM).is_ok() || write(ready[1], "x", 1) != 1) _exit(2);
    for (;;) pause();
  }
  char byte;
  CHECK_EQ(read(ready[0], &byte, 1), ssize_t{1});
  close(ready[0]);
  close(ready[1]);
  kill(child, SIGTERM);
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  CHECK_EQ(open_reader(path)->header().signal.load(), SIGTERM);
  CHECK(!note_signal(0).is_ok());
}

CHECK_MAIN()
