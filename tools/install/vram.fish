# fish completion of vram: the command itself says what may stand for the last word
function __vram_files # WORD SUFFIX...: files with one of them, and folders; any file where there is none
    set -l all (__fish_complete_path $argv[1])
    set -l kind (string join '|' -- (string escape --style=regex -- $argv[2..-1]))
    set -l found (string match -r -- "^[^\\t]*(?:$kind)(?:\\t.*)?\$" $all)
    if test (count $argv) -gt 1; and test (count $found) -gt 0
        printf '%s\n' $found (string match -r -- '^[^\t]*/(?:\t.*)?$' $all)
    else
        printf '%s\n' $all
    end
end
function __vram_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case '<file>*'
                __vram_files "$current" (string split -n ' ' -- (string replace -r '^<file>\t?' '' -- $line))
            case '<command>'
                __fish_complete_command
            case '*'
                echo $line
        end
    end
end
complete -c vram -f -a '(__vram_complete)'

# of vram-export and the others: the options that -h lists, and files
function __vram_python
    set -l words (commandline -opc)
    $words[1] -h 2>/dev/null | string match -r -- '^  --.*' |
        string replace -r -- '^  (--[a-z-]+)(?: \S+)*?(?:  +(.*))?$' '$1\t$2'
end
for command in vram-export vram-measure vram-checkpoint
    complete -c $command -n 'string match -q -- "-*" (commandline -ct)' -a '(__vram_python)'
end
