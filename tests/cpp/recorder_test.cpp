// The flight recorder's ring: what is written is read, by another mapping of the file, while it is written.
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "recorder/dump.h"
#include "recorder/process.h"
#include "recorder_fixture.h"

using namespace recorder_test;

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
  issue.starts_now = true;
  ring->begin(issue, sizes, 1000).end(State::kFailed, 1500, "rank 5 is gone");

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
  CHECK_EQ(e.started_ns, int64_t{1000});
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
  begun[1].end(State::kFailed, 99, "of an entry that is no longer there");
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
  entry.end(State::kFailed, 5, std::string(5000, 'y'));
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

TEST(a_group_that_was_left_makes_room_and_what_it_left_behind_is_not_its_successors) {
  const Folder folder;
  const auto ring = make_ring(folder / "one.ring", 8);
  const uint32_t first = ring->add_group(group_of("first"));
  const uint32_t second = ring->add_group(group_of("second"));
  ring->add_group(group_of("third"));
  const Entry late = ring->begin(issue_of(first, 5), {});
  ring->next_request(first);
  ring->leave_group(second);
  ring->leave_group(first);
  ring->leave_group(second);  // said twice
  CHECK_EQ(ring->add_group(group_of("fourth")), second + kMostGroups);
  const uint32_t fifth = ring->add_group(group_of("fifth"));
  CHECK_EQ(place_of(fifth), place_of(first));
  CHECK_EQ(ring->add_group(group_of("one too many")), 0u);

  ring->begin(issue_of(fifth, 1), {}).end(State::kCompleted, 9);
  late.end(State::kCompleted, 9);
  ring->describe_group(first, "of a group that is gone");
  ring->leave_group(first);
  CHECK_EQ(ring->add_group(group_of("still one too many")), 0u);

  const auto reader = open_reader(folder / "one.ring");
  const SeenGroup seen = reader->groups()[place_of(fifth)];
  CHECK_EQ(seen.name, std::string("fifth"));
  CHECK_EQ(seen.description, std::string("described"));
  CHECK_EQ(seen.number, fifth);
  CHECK_EQ(seen.issued, 1u);
  CHECK_EQ(seen.completed, 1u);
  CHECK_EQ(seen.requests, 0u);
  CHECK(!seen.has_left);
  const auto entries = reader->entries();
  CHECK_EQ(entries[0].group, first);
  CHECK_EQ(entries[1].group, fifth);
}

TEST(groups_without_end_need_no_more_room_than_those_that_are_there) {
  const Folder folder;
  const auto ring = make_ring(folder / "one.ring", 4);
  for (int i = 0; i < 200'000; ++i) {
    const uint32_t group = ring->add_group(group_of("again"));
    CHECK(group != 0);
    ring->leave_group(group);
  }
  CHECK_EQ(open_reader(folder / "one.ring")->header().heap_lost.load(), 0u);
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

TEST(a_dump_follows_no_link) {
  const Folder folder;
  const auto ring = make_ring(folder / "rank3.17.ring", 8);
  std::ofstream(folder / "precious") << "somebody's";
  std::filesystem::create_symlink(folder / "precious", folder / "rank3.17.1.part");
  std::string path;
  CHECK(dump(*ring, folder.path(), "", &path).is_ok());
  CHECK(open_reader(path) != nullptr);
  CHECK_EQ(std::filesystem::file_size(folder / "precious"), uintmax_t{10});
}

CHECK_MAIN()
