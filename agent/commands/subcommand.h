// One subcommand's command line. It keeps the headers of CLI11 out of the subcommands: they cost seconds a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace starling {

class Subcommand {
 public:
  // Takes the text of one value. An std::invalid_argument that it throws becomes a usage error with the option's name.
  using Read = std::function<void(const std::string& text)>;

  // `app` owns what is added here and outlives parsing; this object need not.
  Subcommand(CLI::App& app, const char* name, const char* doc);

  // `usage`: "--a VALUE", "--a,--b VALUE", or "word" for a value without a dash; the help shows it so. Given twice,
  // `option` is a usage error; `repeatable` reads each value as it is met, so that the order among options counts.
  void option(const std::string& usage, const std::string& doc, Read read);
  void repeatable(const std::string& usage, const std::string& doc, Read read);
  void text(const std::string& usage, const std::string& doc, std::string& target);
  // `name`: "--a" sets the target, "!--a" clears it.
  void flag(const std::string& name, const std::string& doc, bool& target);

  void require(const std::string& name);                     // an option added before
  void require_any(std::vector<std::string> names);          // one at least of these options
  void exclude(const std::string& a, const std::string& b);  // not both of these
  void then(std::function<void()> parsed);                   // called when this subcommand was chosen and all was read

 private:
  CLI::App* command_;
  std::vector<std::string> any_;  // of require_any
};

}  // namespace starling
