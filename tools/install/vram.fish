# fish completion of vram: the command itself says what may stand for the last word
function __vram_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] complete $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = '<file>'
            __fish_complete_path "$current"
        else
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
