# manifest.pl - checks manifests of Kubernetes by a table of fields and types (t/project/manifests.tsv).
#
#   perl t/lib/manifest.pl check TABLE FILE...     prints each wrong, unknown or missing field; exit code 1 if any
#   perl t/lib/manifest.pl breach TABLE FILE...    breaks each field of the files in turn, and prints breaches that the check misses
#   perl t/lib/manifest.pl print FILE              prints a line per value: document and path, a tab, and the value
#
# Reads the part of YAML that manifests use: block mappings and lists, plain and quoted strings on one or more lines,
# comments, {} and documents. A node is {line, type, and map (with order), list or text}.
use strict;
use warnings;

# ---- YAML

my ($file, @lines);    # lines: [indent, text, line number]
sub wrong { my ($line, $why) = @_; die "$file:$line: $why\n" }

sub without_comment { my ($text) = @_; $text =~ s/^((?:[^'"#]|'[^']*'|"[^"]*"|(?<=\S)#)*?)\s*(?:(?:(?<=\s)|^)#.*)?$/$1/; $text }

sub scalar_node {
  my ($text, $line) = @_;
  return {line => $line, type => 'object', map => {}, order => []} if $text eq '{}';
  return {line => $line, type => 'string', text => $2} if $text =~ /^(['"])(.*)\1$/;
  wrong($line, "expected a plain or quoted string, found $text") if $text =~ /^[\[{&*!|>'"%@`]/;
  my $type = $text =~ /^-?\d+$/ ? 'integer' : $text =~ /^(?:true|false)$/ ? 'boolean' : $text =~ /^(?:null|~|)$/ ? 'null' : 'string';
  return {line => $line, type => $type, text => $text};
}

# Reads the scalar that begins with the text, and continues on the lines that are indented more than `indent`.
sub read_scalar {
  my ($text, $line, $indent) = @_;
  $text .= ' ' . (shift @lines)->[1] while @lines && $lines[0][0] > $indent;
  return scalar_node($text, $line);
}

sub read_value {
  my ($text, $line, $indent) = @_;
  return read_scalar($text, $line, $indent) if $text ne '';
  return read_node() if @lines && ($lines[0][0] > $indent || ($lines[0][0] == $indent && $lines[0][1] =~ /^- /));
  return scalar_node('', $line);
}

sub read_list {
  my ($indent, $line) = ($lines[0][0], $lines[0][2]);
  my @list;
  while (@lines && $lines[0][0] == $indent && $lines[0][1] =~ /^-( +)(.*)$/) {
    my ($step, $rest, $at) = (1 + length $1, $2, $lines[0][2]);
    if ($rest =~ /^[\w.\/-]+:(?: |$)/) {
      $lines[0] = [$indent + $step, $rest, $at];    # a mapping that begins beside the dash
      push @list, read_node();
    } else {
      shift @lines;
      push @list, read_scalar($rest, $at, $indent);
    }
  }
  return {line => $line, type => 'list', list => \@list};
}

sub read_map {
  my ($indent, $line) = ($lines[0][0], $lines[0][2]);
  my (%map, @order);
  while (@lines && $lines[0][0] == $indent && $lines[0][1] =~ /^([\w.\/-]+):(?: +(.*))?$/) {
    my ($key, $rest, $at) = ($1, $2 // '', $lines[0][2]);
    wrong($at, "$key: the field occurs twice") if $map{$key};
    shift @lines;
    $map{$key} = read_value($rest, $at, $indent);
    push @order, $key;
  }
  return {line => $line, type => 'object', map => \%map, order => \@order};
}

sub read_node { return $lines[0][1] =~ /^- / ? read_list() : read_map() }

# Returns the documents of a file.
sub documents {
  ($file) = @_;
  open my $f, '<', $file or die "$file: $!\n";
  my @documents;
  my $n = 0;
  my @all = map { $n++; chomp; [$n, without_comment($_)] } <$f>;
  while (@all) {
    @lines = ();
    while (@all && $all[0][1] ne '---') {
      my ($n, $line) = @{shift @all};
      push @lines, [length $1, $2, $n] if $line =~ /^( *)(.+)$/;
    }
    shift @all;
    next unless @lines;
    push @documents, read_node();
    wrong($lines[0][2], "expected a field or an item of a list at this indent, found $lines[0][1]") if @lines;
  }
  return @documents;
}

# ---- the check

my (%fields, %needed);    # by type: the types of its fields; the fields that must be present

sub read_table {
  my ($path) = @_;
  open my $f, '<', $path or die "$path: $!\n";
  while (<$f>) {
    next if /^#/;
    chomp;
    my ($of, $name, $type) = split /\t/;
    $needed{$of}{$name} = 1 if $name =~ s/!$//;
    $fields{$of}{$name} = $type;
  }
}

# Returns the faults of a node that must have the type. path: the node's fields, from the kind of the document.
sub faults {
  my ($node, $type, $path) = @_;
  my $found = $node->{type};
  my $at = sub { "$file:$node->{line}: $path: $_[0]" };
  if ($type =~ s/^\[\] //) {
    return $at->("expected a list, found type $found") if $found ne 'list';
    return map { faults($_, $type, "$path\[]") } @{$node->{list}};
  }
  return $at->("expected an integer or a string, found type $found") if $type eq 'quantity' && $found !~ /^(?:integer|string)$/;
  return $at->("expected type $1, found type $found") if $type =~ /^(string|integer|boolean)\b/ && $found ne $1;
  return $at->("expected $1, found $node->{text}") if $type =~ /^string (.*)/ && !grep { $_ eq $node->{text} } split /\|/, $1;
  return () if $type =~ /^(?:string|integer|boolean|quantity)\b/;
  return $at->("expected an object, found type $found") if $found ne 'object';
  return map { faults($node->{map}{$_}, $1, "$path.$_") } @{$node->{order}} if $type =~ /^map (.*)/;
  return $at->("expected an object that t/project/manifests.tsv describes; add its fields there") if !$fields{$type};
  my @faults = map { $at->("the field $_ is missing") } grep { !$node->{map}{$_} } sort keys %{$needed{$type} // {}};
  for my $name (@{$node->{order}}) {
    my ($value, $of) = ($node->{map}{$name}, $fields{$type}{$name});
    push @faults, $of ? faults($value, $of, "$path.$name") : "$file:$value->{line}: $path.$name: unknown field; expected one of "
      . join(', ', sort keys %{$fields{$type}});
  }
  return @faults;
}

sub faults_of {
  my ($document) = @_;
  my $kind = $document->{map}{kind}{text} // '';
  return "$file:$document->{line}: kind $kind: expected one of " . join(', ', grep { $fields{$_}{kind} } sort keys %fields) if !$fields{$kind}{kind};
  return faults($document, $kind, $kind);
}

# ---- planted breaches

my ($nbreach, @missed) = (0);

# Applies a change of the document, expects a fault, and reverts the change.
sub expect_fault {
  my ($document, $what, $node, %change) = @_;
  my %old = map { $_ => $node->{$_} } keys %change;
  @$node{keys %change} = values %change;
  $nbreach++;
  push @missed, "$file:$node->{line}: $what" if !faults_of($document);
  @$node{keys %old} = values %old;
}

sub plant {
  my ($document, $node, $type) = @_;
  expect_fault($document, "another type than $type", $node, type => 'wrong');
  expect_fault($document, 'a string that is not in the list', $node, text => 'wrong') if $type =~ /^string ./;
  if ($type =~ s/^\[\] //) {
    plant($document, $_, $type) for @{$node->{list}};
  } elsif ($type =~ /^map (.*)/) {
    plant($document, $node->{map}{$_}, $1) for @{$node->{order}};
  } elsif ($fields{$type}) {
    for my $name (@{$node->{order}}) {
      my %map = %{$node->{map}};
      my $value = delete $map{$name};
      my @others = grep { $_ ne $name } @{$node->{order}};
      expect_fault($document, "without the field $name", $node, map => \%map, order => \@others) if $needed{$type}{$name};
      expect_fault($document, "a field ${name}x", $node, map => {%{$node->{map}}, "${name}x" => $value}, order => [@{$node->{order}}, "${name}x"]);
      plant($document, $value, $fields{$type}{$name});
    }
  }
}

sub print_values {
  my ($node, $path) = @_;
  return print "$path\t$node->{text}\n" if defined $node->{text};
  return map { print_values($node->{map}{$_}, "$path.$_") } @{$node->{order}} if $node->{map};
  print_values($node->{list}[$_], "$path.$_") for 0 .. $#{$node->{list}};
}

my ($what, @paths) = @ARGV;
read_table(shift @paths) if $what ne 'print';
my @found;
for my $path (@paths) {
  my @documents = documents($path);
  push @found, map { faults_of($_) } @documents if $what eq 'check';
  plant($_, $_, $_->{map}{kind}{text}) for $what eq 'breach' ? @documents : ();
  print_values($documents[$_], $_) for $what eq 'print' ? 0 .. $#documents : ();
}
print "$nbreach breaches\n" if $what eq 'breach';
print "$_\n" for @found, @missed;
exit(@found || @missed ? 1 : 0);
