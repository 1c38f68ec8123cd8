#include "agent/commands/subcommand.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <CLI/CLI.hpp>

#include "agent/config/wrap.h"

namespace starling {
namespace {

// CLI11 shows it right of the names, line by line.
std::string for_help(const std::string& doc) {
  constexpr size_t kColumns = 100, kNames = 30;
  return wrapped(doc, kColumns - kNames);
}

CLI::Option* add_option(CLI::App& command, const std::string& usage, const std::string& doc, Subcommand::Read read) {
  const size_t gap = usage.find(' ');
  const std::string names = usage.substr(0, gap), value = gap == std::string::npos ? "" : usage.substr(gap + 1);
  const std::string name = names.substr(0, names.find(','));
  const auto checked = [name, read = std::move(read)](const std::string& text) {
    try {
      read(text);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(name, error.what());
    }
  };
  return command.add_option_function<std::string>(names, checked, for_help(doc))->type_name(value);
}

}  // namespace

Subcommand::Subcommand(CLI::App& app, const char* name, const char* doc) : command_(app.add_subcommand(name, doc)) {}

void Subcommand::option(const std::string& usage, const std::string& doc, Read read) {
  add_option(*command_, usage, doc, std::move(read));
}

void Subcommand::repeatable(const std::string& usage, const std::string& doc, Read read) {
  add_option(*command_, usage, doc, std::move(read))->trigger_on_parse();
}

void Subcommand::text(const std::string& usage, const std::string& doc, std::string& target) {
  add_option(*command_, usage, doc, [&target](const std::string& text) { target = text; });
}

void Subcommand::flag(const std::string& name, const std::string& doc, bool& target) {
  const bool value = !name.starts_with('!');
  command_->add_flag_callback(value ? name : name.substr(1), [&target, value] { target = value; }, for_help(doc));
}

void Subcommand::require(const std::string& name) { command_->get_option(name)->required(); }

void Subcommand::require_any(std::vector<std::string> names) { any_ = std::move(names); }

void Subcommand::exclude(const std::string& a, const std::string& b) {
  command_->get_option(a)->excludes(command_->get_option(b));
}

void Subcommand::then(std::function<void()> parsed) {
  command_->callback([command = command_, any = any_, parsed = std::move(parsed)] {
    const bool has_one =
        std::any_of(any.begin(), any.end(), [&](const auto& name) { return command->count(name) > 0; });
    if (!any.empty() && !has_one) {
      std::string names = any[0];
      for (size_t i = 1; i < any.size(); ++i) names += (i == 1 ? " (or " : ", ") + any[i];
      throw CLI::RequiredError(any.size() > 1 ? names + ")" : names);
    }
    parsed();
  });
}

}  // namespace starling
